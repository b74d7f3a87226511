"""Loading of lake files: rows, ledger and coverage of hours, snapshots, lookups and lists."""
