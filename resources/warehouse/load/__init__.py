"""Loading: files of the lake become rows, the ledger and the coverage; what a snapshot adds."""
