"""Where work runs: a function mapped over independent items, on this machine's threads.

Belongs here: running functions over items, collecting what came of each, and telling how far they are.
Does not belong here: what the functions do. Nothing in this package knows of archives, tables or services.
"""

from resources.engine.mapping import Engine, Outcome
from resources.engine.progress import LineReporter, Reporter, Task

__all__ = ["Engine", "LineReporter", "Outcome", "Reporter", "Task"]
