"""Rows become Parquet files: row groups that are encoded beside one another, joined, and landed whole or not at all."""
