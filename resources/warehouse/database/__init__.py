"""DuckDB access: opening files, creating the declared tables, and generating SQL."""
