"""The names of Dagster's storage in SQLite that it does not publish, for `history`.

Apart from the others, because it brings SQLAlchemy and Alembic, which take as long to import as the rest of Dagster.
"""

from __future__ import annotations

from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from dagster._core.storage.sql import ScriptDirectory, create_engine  # type: ignore[attr-defined] # Alembic's

#: The modules that make engines, each by its own name `create_engine`.
SQLITE_STORAGES = (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage)

__all__ = ["SQLITE_STORAGES", "ScriptDirectory", "create_engine"]
