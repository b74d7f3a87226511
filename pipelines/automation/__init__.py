"""Automation: jobs, schedules and sensors.

Belongs here: selections of assets, times, and the search for missing or pending hours. Does not belong here: the work
(see `assets`), and running jobs in a separate process (see `operations`).
"""
