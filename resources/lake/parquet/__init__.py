"""Parquet files: parallel encoding of row groups, assembly into one file, and compaction of many files into a few."""
