"""Parallel work: a function is applied to independent items, on threads of this machine or on workers of Dask.

This package does not depend on archives, tables or services.
"""

from resources.engine.mapping import Engine, LineReporter, Outcome, Reporter, Task

__all__ = ["Engine", "LineReporter", "Outcome", "Reporter", "Task"]
