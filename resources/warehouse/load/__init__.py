"""Loading of lake files for hours, snapshots, lookups and lists: rows, ledger entries and coverage."""
