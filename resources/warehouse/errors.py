"""Errors of the warehouse. Each message says what happened, what was kept and what to do."""

from __future__ import annotations

from resources.errors import DiskFullError, MirrorError


class WarehouseError(MirrorError):
    """Base class: an operation of the warehouse failed."""


class WarehouseBusyError(WarehouseError):
    """Another process held the lock for longer than the timeout."""

    retryable = True
    ends_run = True
    unavailable = "warehouse"


class WarehouseFullError(WarehouseError, DiskFullError):
    """Disk or memory ran out; the transaction was rolled back."""


class WarehouseDamagedError(WarehouseError):
    """DuckDB cannot read the build file."""

    ends_run = True
    unavailable = "warehouse"


class WarehouseVersionError(WarehouseError):
    """The build file cannot be opened in the requested storage version."""

    ends_run = True
    unavailable = "warehouse"


class LakeFileError(WarehouseError):
    """A lake file is missing or damaged, or contradicts the ledger or the announced counts."""


class QueryError(WarehouseError):
    """DuckDB could not open the published file or answer a query on it."""


class NotPublishedError(WarehouseError):
    """There is no published file yet."""

    retryable = True
