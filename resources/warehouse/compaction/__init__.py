"""Selection of files to compact, and compactions in the ledger. The lake package rewrites the files."""
