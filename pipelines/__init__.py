"""Dagster definitions, operator tasks, reports, and the command line `wme`.

This package decides which work to run, runs it, and shows the results. The assets are in `assets`. The package
`resources` accesses the service, files and databases.
"""
