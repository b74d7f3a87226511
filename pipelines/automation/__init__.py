"""Jobs, schedules and sensors.

This package selects assets and times, and finds missing or pending hours. The `assets` package does the actual work.
Code that runs jobs without Dagster's daemon is in `operations`.
"""
