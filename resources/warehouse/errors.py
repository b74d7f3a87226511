"""What can go wrong in the warehouse, each as a sentence: what happened, what was kept, what to do.

Belongs here: the error tree. Does not belong here: deciding what is retried; `retryable` only says what helps.
"""

from __future__ import annotations


class WarehouseError(Exception):
    """Something the warehouse could not do. `retryable`: the same call may succeed later."""

    retryable = False


class WarehouseBusyError(WarehouseError):
    """Another process held the warehouse for longer than this one was willing to wait."""

    retryable = True


class WarehouseFullError(WarehouseError):
    """The disk or the memory was not enough; the transaction was rolled back."""

    retryable = True


class WarehouseVersionError(WarehouseError):
    """The build file was made for other tables than the ones declared now."""


class LakeFileError(WarehouseError):
    """A lake file is absent, or holds something else than what was said about it."""


class QueryError(WarehouseError):
    """DuckDB could not answer a query on the published file, or not open the file."""


class NotPublishedError(WarehouseError):
    """There is no published file to read yet."""

    retryable = True
