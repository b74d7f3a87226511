"""DuckDB itself: opening the files, the tables that are declared, SQL as text."""
