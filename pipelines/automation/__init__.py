"""What runs by itself, and when: jobs, schedules and sensors.

Belongs here: what is run together, times, and looking for what is missing or pending. Does not belong here: the work
(see
`assets`), and running jobs in a process of one's own (see `operations`).
"""
