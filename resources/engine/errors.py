"""Errors between a run and the workers of a cluster. An error of a task itself arrives unchanged."""

from __future__ import annotations

from resources.errors import MirrorError


class EngineError(MirrorError):
    """Work could not be done by the workers of a cluster; what they landed before is kept and found again."""


class ExtraMissingError(EngineError):
    """A cluster is configured, and the packages for it are not installed."""


class EngineUnreachableError(EngineError):
    """Nobody answers at the scheduler's address, or the connection to it was lost."""

    retryable = True


class NoWorkerError(EngineError):
    """The scheduler answers, and has no worker, or has lost all of them."""

    retryable = True


class WorkersDifferError(EngineError):
    """All workers, or the scheduler, are of other versions than this process."""


class FolderNotSharedError(EngineError):
    """A worker does not see the data folder of this process, or cannot write into it."""


class TaskLostError(EngineError):
    """The workers that a task was given to died, again and again."""


class TaskError(EngineError):
    """A task failed with an unforeseen error; the message is that error's own."""
