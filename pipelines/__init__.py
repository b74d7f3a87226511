"""Definitions for Dagster, operator tasks, reports, and the command line `wme`.

Belongs here: the choice of what to run, running it, and showing the result. Does not belong here: the assets (see
`assets`), and access to the service, files and databases (see `resources`).
"""
