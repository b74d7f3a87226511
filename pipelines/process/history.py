"""Dagster's history in SQLite, at less than half of its processor time: what each event needs again is kept.

Dagster makes an engine of SQLAlchemy for every statement, which compiles it anew each time. Each run has a database of its own, and
Alembic reads fifty scripts of revisions for every database that is opened, only to name the newest.

Belongs here: what is kept between events. Does not belong here: what is written. The files stay as Dagster makes them.
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipelines.process.dagster_internals import instance_factory, storages_are_imported

if TYPE_CHECKING:
    import dagster as dg

    from pipelines.process.dagster_internals import InstanceRef

#: Runs, schedules, assets and the run under way, with some room for those that sensors look at.
ENGINES = 8
#: Alembic's folders of scripts: those of runs, events and schedules.
FOLDERS = 3


@functools.lru_cache(maxsize=ENGINES)
def _engine(address: str, connecting: frozenset[tuple[str, Any]], **options: Any) -> Any:
    from pipelines.process.dagster_storages import create_engine

    return create_engine(address, connect_args=dict(connecting), **options)


def engine(address: str, *, connect_args: MappingProxyType[str, Any] = MappingProxyType({}), **options: Any) -> Any:
    """The engine of a database, made once. Dagster's have no pool, so it keeps no connection open and no file in use."""
    return _engine(address, frozenset(connect_args.items()), **options)


@functools.cache
def reuse() -> None:
    """Have Dagster use these from now on, in this process.

    The code location is loaded before most processes open an instance, if they ever do: until then nothing of the storage is imported.
    """
    if storages_are_imported():
        _reuse()
    make = instance_factory.create_instance_from_ref

    @functools.wraps(make)
    def opened(instance_ref: InstanceRef) -> dg.DagsterInstance:
        _reuse()
        return make(instance_ref)

    instance_factory.create_instance_from_ref = opened


@functools.cache
def _reuse() -> None:
    from pipelines.process.dagster_storages import SQLITE_STORAGES, ScriptDirectory

    for storage in SQLITE_STORAGES:
        storage.create_engine = engine  # type: ignore[attr-defined]
    # keyed by Alembic's configuration, of which Dagster keeps one for each folder
    ScriptDirectory.from_config = functools.lru_cache(maxsize=FOLDERS)(ScriptDirectory.from_config)  # type: ignore[method-assign]
