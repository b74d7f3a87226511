"""Errors of the warehouse. Each is a sentence: what happened, what was kept, what to do."""

from __future__ import annotations

from resources.errors import DiskFullError, MirrorError


class WarehouseError(MirrorError):
    """Something the warehouse could not do."""


class WarehouseBusyError(WarehouseError):
    """Another process held the warehouse for longer than this one was willing to wait."""

    retryable = True
    ends_run = True
    unavailable = "warehouse"


class WarehouseFullError(WarehouseError, DiskFullError):
    """The disk or the memory was not enough; the transaction was rolled back."""


class WarehouseDamagedError(WarehouseError):
    """DuckDB cannot read the build file."""

    ends_run = True
    unavailable = "warehouse"


class WarehouseVersionError(WarehouseError):
    """The build file was made for other tables than the ones declared now."""

    ends_run = True
    unavailable = "warehouse"


class LakeFileError(WarehouseError):
    """A lake file is absent, or holds something else than what was said about it."""


class QueryError(WarehouseError):
    """DuckDB could not answer a query on the published file, or not open the file."""


class NotPublishedError(WarehouseError):
    """There is no published file to read yet."""

    retryable = True
