"""Dagster definitions, operator tasks, reports, and the `wme` command line."""
