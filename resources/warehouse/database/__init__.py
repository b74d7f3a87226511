"""DuckDB access: opening the files, creating the declared tables, SQL as text."""
