"""The families of datasets: for each a factory of its assets."""
