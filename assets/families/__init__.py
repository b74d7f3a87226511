"""The families of datasets: for each a factory of its assets, and the steps of one hour and of one snapshot."""
