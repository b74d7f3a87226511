"""Dagster resources that create library objects from settings.

A resource contains values from the settings. A run can override only numeric settings with bounds, not addresses,
accounts or paths. Otherwise, anyone who can start a run could choose the password's recipient and the files to read.

This module contains the resources that assets use: the service, the lake, the warehouse and the engine. Each resource
is a thin layer over its package. The module also contains the pools that prevent concurrent runs of the same kind. Code
that is useful without Dagster, for example in a notebook, belongs in the underlying packages.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from types import NoneType
from typing import Any, ClassVar, get_args

import dagster as dg
from pydantic.fields import FieldInfo

from resources import connection
from resources.datasets import Dataset
from resources.engine import Engine, Reporter, line_reporter
from resources.enterprise import EnterpriseClient
from resources.lake import Converter, Layout
from resources.remote import SCHEME, RemoteWorkers
from resources.settings import BODIES, Settings
from resources.warehouse import Warehouse

#: Dagster pools, each limited to one run at a time (dagster.yaml): fetching hours, fetching snapshots, compaction, and
#: the stream. A run occupies its pool from start to end. Writing build.duckdb needs no pool, because the warehouse has
#: its own lock, which is held only while data is being written and never during downloads.
HOURS_POOL = "hours"
SNAPSHOTS_POOL = "snapshots"
COMPACTION_POOL = "compaction"
STREAM_POOL = "stream"
#: Resource keys, which are also the names of the parameters that receive the resources.
KEYS = ("enterprise", "lake", "warehouse", "engine")
POOLS = (HOURS_POOL, SNAPSHOTS_POOL, COMPACTION_POOL, STREAM_POOL)
#: Maximum seconds to wait for the warehouse's lock, for callers that cannot wait long.
GLANCE_SECONDS = 5.0
_PLAIN: dict[Any, Any] = {bool: dg.Bool, int: dg.Int, float: dg.Float, str: dg.String}


def run_fields(declared: Mapping[str, FieldInfo], values: Mapping[str, Any] | None = None) -> dict[str, dg.Field]:
    """Convert pydantic fields to a run configuration with Dagster's plain types. `values` contains the defaults.

    Dagster's own conversion accepts `{env: NAME}` for each value and can therefore read any environment variable.
    """
    made = {}
    for name, field in declared.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        (plain,) = (_PLAIN[kind] for kind in kinds if kind is not NoneType)
        made[name] = dg.Field(
            dg.Noneable(plain) if NoneType in kinds else plain,
            is_required=False,
            default_value=field.default if values is None else values[name],
            description=field.description,
        )
    return made


@dataclass(frozen=True)
class _Configured:
    """A resource that contains values from the settings."""

    settings: Settings
    #: Settings that a run can override.
    numbers: ClassVar[tuple[str, ...]] = ()

    def definition(self, description: str | None = None) -> dg.ResourceDefinition:
        """Return a Dagster resource for this object. Runs can override `numbers`. The UI shows `description`."""
        text = description or type(self).__doc__
        declared = {name: Settings.model_fields[name] for name in self.numbers}
        numbers = run_fields(declared, {name: getattr(self.settings, name) for name in declared})
        return dg.ResourceDefinition(
            lambda context: replace(self, settings=self.settings.model_copy(update=context.resource_config)),
            config_schema=dg.Field(numbers, is_required=False, description=text),
            description=text,
        )


class ConfiguredEnterprise(_Configured):
    """The Enterprise Content Service or the sandbox, and the mirrored scope."""

    numbers = ("lookups_per_day", "check_pages")

    def client(self, seconds: float | None = None) -> AbstractContextManager[EnterpriseClient]:
        """Open a service client as a context manager. `seconds` is a time limit for callers that cannot wait."""
        return connection.client(self.settings, seconds)


class ConfiguredLake(_Configured):
    """A data folder's archive and Parquet lake."""

    numbers = ("max_record_mb", "min_free_gb", "grace_hours")

    @property
    def grace(self) -> timedelta:
        return timedelta(hours=self.settings.grace_hours)

    @property
    def record_bytes_max(self) -> int:
        return self.settings.max_record_mb << 20

    def bodies_of(self, dataset: Dataset) -> frozenset[str]:
        """Return the page text columns to store for a dataset. HTML and wikitext are included only if configured."""
        own = {column.name for column in dataset.table if column.body}
        return frozenset(own - {*BODIES} | own & {*self.settings.bodies})

    @property
    def layout(self) -> Layout:
        return Layout(self.settings.data)


class ConfiguredWarehouse(_Configured):
    """A data folder's DuckDB warehouse, which is locked and opened for each use and then closed."""

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.data, storage_version=self.settings.storage_version)

    @property
    def glance(self) -> Warehouse:
        """Return a warehouse for readers that cannot wait long. Such readers wait only a few seconds for the lock."""
        settings = self.settings
        return Warehouse(settings.data, storage_version=settings.storage_version, lock_timeout=GLANCE_SECONDS)


@dataclass(frozen=True)
class ConfiguredEngine(_Configured):
    """The engine for parallel work."""

    #: Progress display of commands, which replaces the progress lines in a run's log.
    reporter: Reporter | None = None
    numbers = ("workers", "threads", "memory_mb")

    def engine(self, say: Callable[[str], None]) -> Engine:
        """Return the engine, which reports progress as lines of text through `say`."""
        return Engine(workers=self.settings.workers, reporter=self.reporter or line_reporter(say))

    def converter(self, lake: ConfiguredLake, *, is_local: bool = False) -> Converter | RemoteWorkers:
        """Return a context manager that yields a converter of archives.

        With `is_local`, the converter uses this process's threads, because remote workers cannot verify lake files.
        """
        remote, chosen = self._remote(lake), self.settings
        if remote is not None and not is_local:
            return remote
        memory_bytes = None if chosen.memory_mb is None else chosen.memory_mb << 20
        return Converter(workers=chosen.threads, memory_bytes=memory_bytes, record_bytes_max=lake.record_bytes_max)

    def compactor(self, lake: ConfiguredLake) -> AbstractContextManager[RemoteWorkers | None]:
        """Return a context manager that yields the remote compaction workers, or None if local threads are used."""
        return self._remote(lake) or nullcontext()

    def _remote(self, lake: ConfiguredLake) -> RemoteWorkers | None:
        self.settings.check()
        lake.settings.check()
        if not self.settings.engine.startswith(SCHEME):
            return None
        return RemoteWorkers(self.settings.engine, lake.layout, record_bytes_max=lake.record_bytes_max)


def build_resources(settings: Settings) -> dict[str, Any]:
    """Build the four resources as plain objects by resource key, which `build_defs` converts to Dagster resources."""
    kinds = (ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse, ConfiguredEngine)
    return {key: kind(settings) for key, kind in zip(KEYS, kinds, strict=True)}


#: Types for parameters of assets, checks and sensors.
EnterpriseResource = dg.ResourceParam[ConfiguredEnterprise]
LakeResource = dg.ResourceParam[ConfiguredLake]
WarehouseResource = dg.ResourceParam[ConfiguredWarehouse]
EngineResource = dg.ResourceParam[ConfiguredEngine]
