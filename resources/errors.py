"""The root of every error that this package raises on purpose.

A subclass declares two facts: whether a retry helps, and whether the error ends the run. Error handlers read these
attributes and keep no list of classes. The message is a sentence for people: what happened, what was kept, what to do.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class MirrorError(Exception):
    """A foreseen failure.

    Attributes:
        retryable: The same call can succeed later without anybody changing anything.
        ends_run: Every other hour and file of the run would fail as well: a refused account, a full disk.
        unavailable: The system that no run of any dataset can use, until somebody acts or some time has passed.
    """

    retryable: ClassVar[bool] = False
    ends_run: ClassVar[bool] = False
    unavailable: ClassVar[Literal["service", "warehouse"] | None] = None


class DiskFullError(MirrorError):
    """The disk, the quota of the user or the allowed file size leaves no room."""

    ends_run = True


def retryable(error: BaseException) -> bool:
    """Return True if a later retry can help. Unforeseen errors count as permanent."""
    return isinstance(error, MirrorError) and error.retryable


def ends_run(error: BaseException) -> bool:
    """Return True if an error would stop all other work of the run as well."""
    return isinstance(error, MirrorError) and error.ends_run


def unavailable(error: BaseException) -> Literal["service", "warehouse"] | None:
    """Return the system that other runs should not query after this error."""
    return error.unavailable if isinstance(error, MirrorError) else None


def clause(error: BaseException) -> str:
    """Return an error for the middle of a sentence: its first statement, without advice and full stop."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    else:
        text = str(getattr(error, "what", error)).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].removesuffix(".")
