"""Process management: the Dagster instance, locks that show which runs are alive, interrupts, servers.

Belongs here: tasks of a process, whatever it runs. Does not belong here: the work that it runs.
"""
