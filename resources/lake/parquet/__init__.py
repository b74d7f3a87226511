"""Conversion of rows to Parquet files: row groups are encoded in parallel, joined, and landed as one file."""
