"""Parquet files: parallel encoding of row groups, their assembly to one file, and compaction of many files to few."""
