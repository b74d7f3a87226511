"""Jobs, schedules and sensors.

Belongs here: asset selections, times, and the search for missing or pending hours. Does not belong here: the work (see
`assets`), and running jobs outside Dagster's daemon (see `operations`).
"""
