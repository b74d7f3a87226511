"""The plain library as Dagster resources: settings in, library objects out.

Belongs here: the three resources that assets ask for (the service, the lake, the warehouse) and the engine, each a thin
skin over its package, and the pools that keep runs of one kind from each other's way.
Does not belong here: anything a notebook without Dagster would want; that is in the packages below.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from resources.access import Access
from resources.engine import Engine, LineReporter
from resources.lake import RECORD_BYTES_MAX, Converter, Layout
from resources.remote import SCHEME, RemoteCompactor, RemoteConverter, compactor
from resources.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from resources.datasets import Dataset
    from resources.enterprise import EnterpriseClient, Service

#: Pools, each for one run at a time (dagster.yaml): what fetches hours, what fetches snapshots, what compacts, what reads the stream. A run holds its pool from
#: its beginning to its end, so there is none for writing build.duckdb: the warehouse's own lock is held exactly while
#: something is written, and whoever downloads keeps nobody from it.
HOURS_POOL = "hours"
SNAPSHOTS_POOL = "snapshots"
COMPACTION_POOL = "compaction"
STREAM_POOL = "stream"
POOLS = (HOURS_POOL, SNAPSHOTS_POOL, COMPACTION_POOL, STREAM_POOL)
#: The bodies that are configured (WME_BODIES).
_CHOSEN = {"html", "wikitext"}
_OWN = "With use_sandbox it is only shown: a sandbox that is started takes free ports."


class EnterpriseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The Enterprise Content Service, or the sandbox in its place, and what of it is mirrored."""

    data: str = Field(description="Data folder; tokens are shared in its state folder.")
    projects: list[str] = Field(description="Projects to mirror, for example enwiki.")
    namespaces: list[int] = Field(default=[0], description="Namespaces to mirror.")
    auth_url: str | None = Field(default=None, description=f"Where to log in. {_OWN}")
    base_url: str | None = Field(default=None, description=f"Where lists, snapshots and files are. {_OWN}")
    realtime_url: str | None = Field(default=None, description=f"Where streams are. {_OWN}")
    username: str | None = Field(default=None, description="User name of the account; none for the sandbox.")
    password: str | None = Field(
        default=None, description="Password of the account, by its variable: {env: WME_PASSWORD}."
    )
    contact: str | None = Field(default=None, description="Operator, sent in the User-Agent.")
    anonymous: bool = Field(default=False, description="No token: for addresses that the service admits.")
    min_free_gb: float = Field(default=0.0, description="Free disk space (GB) that downloads leave untouched.")
    requests_per_second: float | None = Field(default=None, description="Requests a second that the account may make.")
    wikidata: bool = Field(default=False, description="Mirror the items and properties of Wikidata, too.")
    watchlist: str | None = Field(default=None, description="File of pages to look up when they change.")
    lookups_per_day: int = Field(default=100, description="Lookups that a day may spend.")
    check_pages: int | None = Field(
        default=None, description="Pages that a check looks up each day; default: 10 with a paid account, else none."
    )
    use_sandbox: bool = Field(default=False, description="Start (or join) the built-in local content service.")

    @property
    def scope(self) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs, in the order configured."""
        return tuple((project, namespace) for project in self.projects for namespace in self.namespaces)

    def scope_of(self, dataset: Dataset) -> tuple[tuple[str, int], ...]:
        """The mirrored (project, namespace) pairs of a dataset; empty where it is not mirrored."""
        return dataset.scope(self.scope, wikidata=self.wikidata)

    @property
    def access(self) -> Access:
        """How the service is reached, for whoever does without Dagster."""
        named = {one.name: getattr(self, one.name) for one in fields(Access)}
        return Access(**{name: value for name, value in named.items() if value is not None})

    def service(self) -> Service:
        """The service to talk to; starts the sandbox where that is the service. Binds the data folder to it."""
        return self.access.service()

    def client(self, seconds: float | None = None) -> AbstractContextManager[EnterpriseClient]:
        """A client of the service, closed at the end; `seconds`: for whoever may not wait."""
        return self.access.client(seconds)


class LakeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The archive and the Parquet lake of a data folder."""

    data: str = Field(description="Data folder.")
    bodies: list[str] = Field(default=["html", "wikitext"], description="Bodies to keep in the lake.")
    max_record_mb: int = Field(
        default=RECORD_BYTES_MAX >> 20, description="Longest record (MiB) that is converted; longer lines are rejected."
    )
    min_free_gb: float = Field(default=1.0, description="Free disk space (GB) that a run leaves untouched.")
    grace_hours: float = Field(default=24.0, description="Hours that replaced files stay for those who may read them.")

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
        return Layout(Path(self.data))


class WarehouseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The DuckDB warehouse of a data folder. Opened for the moment of use, under its lock, and always closed."""

    data: str = Field(description="Data folder.")
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
        return Warehouse(Path(self.data), storage_version=self.storage_version)

    @property
    def glance(self) -> Warehouse:
        """The same for whoever may not wait: who writes is not waited for longer than some seconds."""
        return Warehouse(Path(self.data), storage_version=self.storage_version, lock_timeout=5.0)


class EngineResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where parallel work runs."""

    address: str = Field(
        default="threads",
        description="Where archives are converted and lake files compacted: threads of this process, or dask://host:port.",
    )
    workers: int = Field(default=4, description="Downloads under way at once.")
    threads: int | None = Field(default=None, description="Threads that convert; default: as many as there are cores.")
    memory_mb: int | None = Field(
        default=None,
        description="Memory (MiB) that the process may take while it converts; default: a quarter of what it may use, 512 at least.",
    )

    def engine(self, say: Callable[[str], None]) -> Engine:
        """The engine, telling its progress in lines through `say`."""
        return Engine(workers=self.workers, reporter=LineReporter(say))

    def converter(self, lake: LakeResource) -> Converter | RemoteConverter:
        """The converter of archives into a lake, to be used as a context."""
        if self.address.startswith(SCHEME):
            return RemoteConverter(self.address, lake.layout, record_bytes_max=lake.record_bytes_max)
        return Converter(
            workers=self.threads,
            memory_bytes=None if self.memory_mb is None else self.memory_mb << 20,
            record_bytes_max=lake.record_bytes_max,
        )

    def compactor(self, lake: LakeResource) -> AbstractContextManager[RemoteCompactor | None]:
        """The workers that compact, to be used as a context; None: threads of this process."""
        return compactor(self.address, lake.layout, record_bytes_max=lake.record_bytes_max)
