"""Parallel work: a function is mapped over independent items, on this machine's threads or by Dask's workers.

Nothing in this package knows of archives, tables or services.
"""

from resources.engine.mapping import Engine, LineReporter, Outcome, Reporter, Task

__all__ = ["Engine", "LineReporter", "Outcome", "Reporter", "Task"]
