"""Choice of files to compact, and the ledger's record of compactions. The lake handles the files themselves."""
