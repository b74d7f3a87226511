"""Root of all errors that this package raises deliberately.

A subclass declares two facts: whether a retry helps, and whether the error ends the run. Error handlers read these
attributes and need no list of classes. A message states what happened, what was kept, and what to do.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class MirrorError(Exception):
    """An expected failure.

    Attributes:
        retryable: The same call may succeed later without any change by a user.
        ends_run: Every other hour and file of the run would fail as well: a refused account, a full disk.
        unavailable: The system that is unusable for all runs, until a user acts or some time has passed.
    """

    retryable: ClassVar[bool] = False
    ends_run: ClassVar[bool] = False
    unavailable: ClassVar[Literal["service", "warehouse"] | None] = None


class DiskFullError(MirrorError):
    """The disk, the quota of the user or the allowed file size is exhausted."""

    ends_run = True


def retryable(error: BaseException) -> bool:
    """Return True if a later retry can help. Unexpected errors count as permanent."""
    return isinstance(error, MirrorError) and error.retryable


def ends_run(error: BaseException) -> bool:
    """Return True if an error would stop all other work of the run as well."""
    return isinstance(error, MirrorError) and error.ends_run


def unavailable(error: BaseException) -> Literal["service", "warehouse"] | None:
    """Return the system that other runs should not query after this error."""
    return error.unavailable if isinstance(error, MirrorError) else None


def clause(error: BaseException) -> str:
    """Return an error as a clause for the middle of a sentence: its first statement, without advice and full stop."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    else:
        text = str(getattr(error, "what", error)).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].removesuffix(".")
