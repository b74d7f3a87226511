"""The library as Dagster resources: settings in, library objects out.

A resource holds values of the settings. A run may override only the bounded numbers: no address, account or path.
Otherwise anyone who can start a run could choose the recipient of the password and the files to read.

Belongs here: the resources that assets use (the service, the lake, the warehouse and the engine), each a thin layer
over its package, and the pools that keep runs of one kind apart. Does not belong here: code that is useful in a
notebook without Dagster; it belongs to the packages below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from types import NoneType
from typing import Any, ClassVar, get_args

import dagster as dg
from pydantic.fields import FieldInfo

from resources import connection
from resources.datasets import Dataset
from resources.engine import Engine, LineReporter
from resources.enterprise import EnterpriseClient, Service
from resources.lake import Converter, Layout
from resources.remote import SCHEME, RemoteCompactor, RemoteConverter, compactor
from resources.settings import BODIES, Settings
from resources.warehouse import Warehouse

#: Pools, each for one run at a time (dagster.yaml): fetching hours, fetching snapshots, compaction, and the stream. A
#: run holds its pool from start to end. Writing build.duckdb needs no pool: the warehouse has its own lock, held only
#: while data is written, so downloads never block it.
HOURS_POOL = "hours"
SNAPSHOTS_POOL = "snapshots"
COMPACTION_POOL = "compaction"
STREAM_POOL = "stream"
#: Resource keys, which are also the names of the parameters that receive them.
KEYS = ("enterprise", "lake", "warehouse", "engine")
POOLS = (HOURS_POOL, SNAPSHOTS_POOL, COMPACTION_POOL, STREAM_POOL)
#: Seconds for which a caller with little time waits for a writer of the warehouse.
GLANCE_SECONDS = 5.0
_PLAIN: dict[Any, Any] = {bool: dg.Bool, int: dg.Int, float: dg.Float, str: dg.String}


def run_fields(declared: Mapping[str, FieldInfo], values: Mapping[str, Any] | None = None) -> dict[str, dg.Field]:
    """Convert pydantic fields to a run's configuration in Dagster's plain types; `values` has the defaults.

    Dagster's own conversion accepts `{env: NAME}` for each value, which reads any variable of the process.
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
    """A resource with values from the settings."""

    settings: Settings
    #: Settings that a run may override.
    numbers: ClassVar[tuple[str, ...]] = ()

    def check(self) -> None:
        """Check the numbers (SettingsError) when a step uses them: Dagster retries runs that fail before a step."""
        self.settings.check()

    def definition(self, description: str | None = None) -> dg.ResourceDefinition:
        """Return the resource for Dagster: this object, with the overrides of a run. The UI shows the description."""
        text = description or type(self).__doc__
        declared = {name: Settings.model_fields[name] for name in self.numbers}
        numbers = run_fields(declared, {name: getattr(self.settings, name) for name in declared})
        return dg.ResourceDefinition(
            lambda context: replace(self, settings=self.settings.model_copy(update=context.resource_config)),
            config_schema=dg.Field(numbers, is_required=False, description=text),
            description=text,
        )


class ConfiguredEnterprise(_Configured):
    """The Enterprise Content Service, or the sandbox in its place, and the mirrored scope."""

    numbers = ("lookups_per_day", "check_pages")

    @property
    def scope(self) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs, in the order configured."""
        return self.settings.scope

    def scope_of(self, dataset: Dataset) -> tuple[tuple[str, int], ...]:
        """Return the mirrored (project, namespace) pairs of a dataset; empty if it is not mirrored."""
        return self.settings.scope_of(dataset)

    def service(self) -> Service:
        self.check()
        return connection.service(self.settings)

    def client(self, seconds: float | None = None) -> AbstractContextManager[EnterpriseClient]:
        """Open a client of the service, closed at the end; `seconds`: time limit for callers that cannot wait."""
        return connection.client(self.settings, seconds)


class ConfiguredLake(_Configured):
    """The archive and the Parquet lake of a data folder."""

    numbers = ("max_record_mb", "min_free_gb", "grace_hours")

    @property
    def grace(self) -> timedelta:
        return timedelta(hours=self.settings.grace_hours)

    @property
    def record_bytes_max(self) -> int:
        return self.settings.max_record_mb << 20

    def bodies_of(self, dataset: Dataset) -> frozenset[str]:
        """Return the kinds of page text to store for a dataset: HTML and wikitext as configured, and all others."""
        own = {column.name for column in dataset.table if column.body}
        return frozenset(own - {*BODIES} | own & {*self.settings.bodies})

    @property
    def layout(self) -> Layout:
        return Layout(self.settings.data)


class ConfiguredWarehouse(_Configured):
    """The DuckDB warehouse of a data folder, opened only for each use, under its lock, and always closed."""

    @property
    def publish_every(self) -> timedelta | None:
        """Shortest time between two automatic publications; None: publish on request only."""
        return self.settings.publish_every

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.data, storage_version=self.settings.storage_version)

    @property
    def glance(self) -> Warehouse:
        """Return a warehouse for readers that cannot wait: the lock of a writer is awaited for a few seconds only."""
        settings = self.settings
        return Warehouse(settings.data, storage_version=settings.storage_version, lock_timeout=GLANCE_SECONDS)


class ConfiguredEngine(_Configured):
    """The engine that runs parallel work."""

    numbers = ("workers", "threads", "memory_mb")

    def engine(self, say: Callable[[str], None]) -> Engine:
        """Return the engine, which reports its progress in lines through `say`."""
        return Engine(workers=self.settings.workers, reporter=LineReporter(say))

    def converter(self, lake: ConfiguredLake) -> Converter | RemoteConverter:
        """Return the converter of archives into a lake, to be used as a context."""
        self.check()
        lake.check()
        chosen, longest = self.settings, lake.record_bytes_max
        if chosen.engine.startswith(SCHEME):
            return RemoteConverter(chosen.engine, lake.layout, record_bytes_max=longest)
        return Converter(
            workers=chosen.threads,
            memory_bytes=None if chosen.memory_mb is None else chosen.memory_mb << 20,
            record_bytes_max=longest,
        )

    def compactor(self, lake: ConfiguredLake) -> AbstractContextManager[RemoteCompactor | None]:
        """Return the workers for compactions, to be used as a context; None: threads of this process."""
        self.check()
        lake.check()
        return compactor(self.settings.engine, lake.layout, record_bytes_max=lake.record_bytes_max)


def build_resources(settings: Settings) -> dict[str, Any]:
    """Build the four resources, as plain objects, by resource key; `build_defs` converts them to Dagster's."""
    kinds = (ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse, ConfiguredEngine)
    return {key: kind(settings) for key, kind in zip(KEYS, kinds, strict=True)}


#: Types of the parameters of assets, checks and sensors.
EnterpriseResource = dg.ResourceParam[ConfiguredEnterprise]
LakeResource = dg.ResourceParam[ConfiguredLake]
WarehouseResource = dg.ResourceParam[ConfiguredWarehouse]
EngineResource = dg.ResourceParam[ConfiguredEngine]
