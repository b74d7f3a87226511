"""Which files are compacted together, and what the ledger says before and after. The files themselves are the lake's."""
