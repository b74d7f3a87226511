"""Functions that load hours, snapshots, lookups and lists from lake files, with ledger entries and coverage."""
