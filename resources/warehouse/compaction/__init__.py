"""Selection of files to compact, and ledger updates for compactions. The `lake` package rewrites the files."""
