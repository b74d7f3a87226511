"""The process that runs something: its Dagster instance, the lock by which others see that it lives, interrupts.

Belongs here: what concerns the process, whatever it runs. Does not belong here: what is run.
"""
