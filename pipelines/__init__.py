"""Schedules, reports and commands: settings, definitions for Dagster, and the command line `wme`.

Belongs here: choosing what to run, running it, showing the result. Does not belong here: the assets (see `assets`) and
access to the service, files and databases (see `resources`).
"""
