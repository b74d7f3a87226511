"""Dagster definitions, operator tasks, reports, and the command line `wme`, which decide, run and show the work."""
