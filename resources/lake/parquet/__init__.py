"""Parquet files: row groups are encoded in parallel, joined and landed as one file; many files are rewritten as few."""
