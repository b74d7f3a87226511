"""Parallel work: a function is mapped over independent items, on this machine's threads.

Belongs here: running functions over items, collecting their results, and reporting progress. Does not belong here: the
functions. Nothing in this package knows of archives, tables or services.
"""

from resources.engine.mapping import Engine, LineReporter, Outcome, Reporter, Task

__all__ = ["Engine", "LineReporter", "Outcome", "Reporter", "Task"]
