"""Jobs, schedules and sensors.

This package selects assets and times, and finds missing or pending hours. The package `assets` does the actual work.
Code that runs jobs without Dagster's daemon is in `operations`.
"""
