"""Parallel execution of a function over independent items, on local threads or on Dask workers.

This package does not depend on archives, tables or services.
"""

from resources.engine.mapping import Engine, Outcome, Reporter, line_reporter

__all__ = ["Engine", "Outcome", "Reporter", "line_reporter"]
