"""The plain library as Dagster resources: settings in, library objects out.

A resource holds what the settings say. A run may set the numbers that have bounds and nothing else: no address, account or path, because
whoever can start a run would then choose where the password is sent and what is read.

Belongs here: the three resources that assets ask for (the service, the lake, the warehouse) and the engine, each a thin
skin over its package, and the pools that keep runs of one kind from each other's way.
Does not belong here: anything a notebook without Dagster would want; that is in the packages below.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path  # noqa: TC003  pydantic looks it up
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from resources.access import LARGEST, Access
from resources.engine import Engine, LineReporter
from resources.enterprise.errors import InvalidRequest
from resources.lake import RECORD_BYTES_MAX, Converter, Layout
from resources.remote import SCHEME, RemoteCompactor, RemoteConverter, compactor
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pydantic.fields import FieldInfo

    from resources.datasets import Dataset
    from resources.enterprise import EnterpriseClient, Service

#: Pools, each for one run at a time (dagster.yaml): what fetches hours, what fetches snapshots, what compacts, what reads the stream. A run holds its pool from
#: its beginning to its end, so there is none for writing build.duckdb: the warehouse's own lock is held exactly while
#: something is written, and whoever downloads keeps nobody from it.
HOURS_POOL = "hours"
SNAPSHOTS_POOL = "snapshots"
COMPACTION_POOL = "compaction"
STREAM_POOL = "stream"
#: The resources, by the names of the parameters that receive them.
KEYS = ("enterprise", "lake", "warehouse", "engine")
POOLS = (HOURS_POOL, SNAPSHOTS_POOL, COMPACTION_POOL, STREAM_POOL)
#: How long whoever may not wait does wait for who writes the warehouse.
GLANCE_SECONDS = 5.0
#: The bodies that are configured (WME_BODIES).
_CHOSEN = {"html", "wikitext"}
_PLAIN: dict[Any, Any] = {bool: dg.Bool, int: dg.Int, float: dg.Float, str: dg.String}


def run_fields(declared: Mapping[str, FieldInfo], values: Mapping[str, Any] | None = None) -> dict[str, dg.Field]:
    """Pydantic fields as fields of a run's configuration, in Dagster's plain types.

    Dagster's own translation accepts `{env: NAME}` for each value, which reads any variable of the process.

    Args:
        declared: The fields by name.
        values: Defaults by name; default: those of the fields.
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


def _number(default: float | None, description: str, least: float = 0, most: float = LARGEST) -> Any:
    """A field for a number that a run may set, within bounds, which `check` looks at."""
    return Field(default=default, description=description, json_schema_extra={"bounds": [least, most]})


class _Configured(BaseModel):
    """A resource as the settings configure it."""

    model_config = ConfigDict(frozen=True)

    def check(self) -> None:
        """See that the numbers can be meant; by the step that uses them, because Dagster repeats a run that fails before its first step.

        Raises:
            InvalidRequest: One cannot; nothing was done.
        """
        for name, field in self._numbers().items():
            extra: Any = field.json_schema_extra
            value, (least, most) = getattr(self, name), extra["bounds"]
            if value is not None and not least <= value <= most:
                raise InvalidRequest(f"{name} is {value}; write a number from {least:,} to {most:,}. Nothing was done.")

    def definition(self, description: str | None = None) -> dg.ResourceDefinition:
        """The resource for Dagster: this object, with the numbers that a run sets. The description is on its page and in the launchpad."""
        text = description or type(self).__doc__
        numbers = run_fields(self._numbers(), {name: getattr(self, name) for name in self._numbers()})
        return dg.ResourceDefinition(
            lambda context: self.model_copy(update=context.resource_config),
            config_schema=dg.Field(numbers, is_required=False, description=text),
            description=text,
        )

    @classmethod
    def _numbers(cls) -> dict[str, FieldInfo]:
        return {name: field for name, field in cls.model_fields.items() if field.json_schema_extra}


class ConfiguredEnterprise(_Configured):
    """The Enterprise Content Service, or the sandbox in its place, and what of it is mirrored."""

    access: Access = Field(description="How the service is reached, for whoever does without Dagster.")
    projects: tuple[str, ...] = Field(description="Projects to mirror, for example enwiki.")
    namespaces: tuple[int, ...] = Field(default=(0,), description="Namespaces to mirror.")
    wikidata: bool = Field(default=False, description="Mirror the items and properties of Wikidata, too.")
    watchlist: Path | None = Field(default=None, description="File of pages to look up when they change.")
    lookups_per_day: int = _number(100, "Lookups that a day may spend.")
    check_pages: int | None = _number(
        None, "Pages that a check looks up each day; default: 10 with a paid account, else none."
    )

    @property
    def scope(self) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs, in the order configured."""
        return tuple((project, namespace) for project in self.projects for namespace in self.namespaces)

    def scope_of(self, dataset: Dataset) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs of a dataset; empty where it is not mirrored."""
        return dataset.scope(self.scope, wikidata=self.wikidata)

    def service(self) -> Service:
        """The service to talk to; starts the sandbox where that is the service. Binds the data folder to it."""
        self.check()
        return self.access.service()

    def client(self, seconds: float | None = None) -> AbstractContextManager[EnterpriseClient]:
        """A client of the service, closed at the end; `seconds`: for whoever may not wait."""
        return self.access.client(seconds)


class ConfiguredLake(_Configured):
    """The archive and the Parquet lake of a data folder."""

    data: Path = Field(description="Data folder.")
    bodies: tuple[str, ...] = Field(default=("html", "wikitext"), description="Bodies to keep in the lake.")
    max_record_mb: int = _number(
        RECORD_BYTES_MAX >> 20, "Longest record (MiB) that is converted; longer lines are rejected.", 16, 1024
    )
    min_free_gb: float = _number(1.0, "Free disk space (GB) that a run leaves untouched.")
    grace_hours: float = _number(24.0, "Hours that replaced files stay for those who may read them.")

    @property
    def grace(self) -> timedelta:
        """How long replaced files stay."""
        return timedelta(hours=self.grace_hours)

    @property
    def record_bytes_max(self) -> int:
        """Bytes of the longest record that is converted."""
        return self.max_record_mb << 20

    def bodies_of(self, dataset: Dataset) -> frozenset[str]:
        """The bodies to keep of a dataset: of HTML and wikitext those configured, and all others that it has."""
        own = {column.name for column in dataset.table if column.body}
        return frozenset(own - _CHOSEN | own & {*self.bodies})

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return Layout(self.data)


class ConfiguredWarehouse(_Configured):
    """The DuckDB warehouse of a data folder. Opened for the moment of use, under its lock, and always closed."""

    data: Path = Field(description="Data folder.")
    publish_minutes: float | None = Field(
        default=0.0,
        description="Runs that were not started by hand publish at most so often; 0: each of them, null: none of them.",
    )

    storage_version: str | None = Field(
        default=None, description="Storage version of DuckDB's files, for example v2.0.0; default: as they are."
    )
    hot_days: int | None = Field(
        default=90,
        description="Days whose changes DuckDB's files hold themselves; older ones are in the lake. null: all.",
    )

    @property
    def hot(self) -> timedelta | None:
        """How long DuckDB's files hold changes themselves; None: for ever."""
        return None if self.hot_days is None else timedelta(days=self.hot_days)

    @property
    def publish_every(self) -> timedelta | None:
        """How often to publish at the most; None: never unasked."""
        return None if self.publish_minutes is None else timedelta(minutes=self.publish_minutes)

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse; nothing is opened yet."""
        return Warehouse(self.data, storage_version=self.storage_version)

    @property
    def glance(self) -> Warehouse:
        """The same for whoever may not wait: who writes is not waited for longer than some seconds."""
        return Warehouse(self.data, storage_version=self.storage_version, lock_timeout=GLANCE_SECONDS)


class ConfiguredEngine(_Configured):
    """Where parallel work runs."""

    address: str = Field(
        default="threads",
        description="Where archives are converted and lake files compacted: threads of this process, or dask://host:port.",
    )
    workers: int = _number(4, "Downloads under way at once.", 1, 64)
    threads: int | None = _number(None, "Threads that convert; default: as many as there are cores.", 1, 1024)
    memory_mb: int | None = _number(
        None,
        "Memory (MiB) that the process may take while it converts; default: a quarter of what it may use, 512 at least.",
        1,
    )

    def engine(self, say: Callable[[str], None]) -> Engine:
        """The engine, telling its progress in lines through `say`."""
        return Engine(workers=self.workers, reporter=LineReporter(say))

    def converter(self, lake: ConfiguredLake) -> Converter | RemoteConverter:
        """The converter of archives into a lake, to be used as a context."""
        self.check()
        lake.check()
        if self.address.startswith(SCHEME):
            return RemoteConverter(self.address, lake.layout, record_bytes_max=lake.record_bytes_max)
        return Converter(
            workers=self.threads,
            memory_bytes=None if self.memory_mb is None else self.memory_mb << 20,
            record_bytes_max=lake.record_bytes_max,
        )

    def compactor(self, lake: ConfiguredLake) -> AbstractContextManager[RemoteCompactor | None]:
        """The workers that compact, to be used as a context; None: threads of this process."""
        self.check()
        lake.check()
        return compactor(self.address, lake.layout, record_bytes_max=lake.record_bytes_max)


#: Types of the parameters of assets, checks and sensors.
EnterpriseResource = dg.ResourceParam[ConfiguredEnterprise]
LakeResource = dg.ResourceParam[ConfiguredLake]
WarehouseResource = dg.ResourceParam[ConfiguredWarehouse]
EngineResource = dg.ResourceParam[ConfiguredEngine]
