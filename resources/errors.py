"""Base class of all errors that this package raises deliberately.

Subclasses declare whether a retry can help and whether the error ends the run. Error handlers use these attributes
instead of lists of classes. Messages state what happened, what was kept, and what to do.
"""

from typing import ClassVar, Literal


class MirrorError(Exception):
    """An expected failure.

    Attributes:
        retryable: True if the same call may succeed later without any action by a user.
        ends_run: True if all other work in the run would fail as well, for example because the disk is full.
        unavailable: Name of a system that no run can use until a user acts or some time has passed.
    """

    retryable: ClassVar[bool] = False
    ends_run: ClassVar[bool] = False
    unavailable: ClassVar[Literal["service", "warehouse"] | None] = None


class DiskFullError(MirrorError):
    """The disk is full, or the user's disk quota or file size limit has been reached."""

    ends_run = True


def retryable(error: BaseException) -> bool:
    """Return True if a later retry can help. Unexpected errors are treated as permanent."""
    return isinstance(error, MirrorError) and error.retryable


def ends_run(error: BaseException) -> bool:
    """Return True if all other work in the run would fail for the same reason."""
    return isinstance(error, MirrorError) and error.ends_run


def unavailable(error: BaseException) -> Literal["service", "warehouse"] | None:
    """Return the name of the system that other runs should not use after this error, or None."""
    return error.unavailable if isinstance(error, MirrorError) else None


def clause(error: BaseException) -> str:
    """Return an error's first statement without a full stop, for use within another sentence."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    else:
        text = str(getattr(error, "what", error)).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].removesuffix(".")
