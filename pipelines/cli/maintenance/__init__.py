"""Commands that keep a mirror: backups, compaction, and what is done to the data folder as a whole."""
