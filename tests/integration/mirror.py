"""A whole mirror in a temporary folder: the sandbox as the service, a data folder, the assets in this process."""

import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
from dagster._core.storage.tags import PARTITION_NAME_TAG

from assets.layers import EARLIEST, HOUR, HOURS, hour_of, key_of
from assets.steps.rebuilding import Rebuilt, repaired
from assets.steps.stream import keep
from pipelines.definitions import build_defs
from resources import connection
from resources.adapters import ConfiguredEngine, ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES, Dataset
from resources.datasets.live import LIVE_CHANGES, Step
from resources.engine import Engine, line_reporter
from resources.enterprise import EnterpriseClient, StreamOptions
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Sandbox, Settings, running
from resources.warehouse import Warehouse
from tests.builds import OpenWarehouse, close_all, lay, looking
from tests.integration.daemon import QUICK, QUIET, changed, settings_of, span_of
from tests.truth import Published

PROJECTS = ("enwiki", "frwiki")
#: Names that unfinished work may have, anywhere in a data folder.
UNFINISHED = ("*.part", "*.part.*", "*.tmp", ".*.tmp", "*.unfinished", "*.wal")


@dataclass
class Made:
    """What one run did, as Dagster tells it."""

    success: bool
    run_id: str
    #: Of the first failed step; None where none failed.
    allow_retries: bool | None
    #: Descriptions of the failed steps, in order.
    sentences: list[str] = field(default_factory=list)
    #: Whether each check passed, by name.
    checks: dict[str, bool] = field(default_factory=dict)
    #: Of each materialization, by asset key as text (`archive/batches`) and hour.
    metadata: dict[tuple[str, datetime | None], dict[str, Any]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        return "\n".join(self.sentences)

    def add(self, event: dg.DagsterEvent) -> None:
        if event.is_step_failure:
            data = event.step_failure_data
            told = data.user_failure_data
            if told is not None and told.description:
                self.sentences.append(told.description)
            elif data.error is not None:
                self.sentences.append(f"UNTOLD {data.error.to_string()}")
        elif event.is_step_materialization:
            hour = None
            with suppress(ValueError):  # a snapshot's name
                hour = None if event.partition is None else hour_of(event.partition)
            metadata = event.step_materialization_data.materialization.metadata
            self.metadata[event.asset_key.to_user_string(), hour] = {name: one.value for name, one in metadata.items()}
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            checked = event.asset_check_evaluation_data
            self.checks[checked.check_name] = checked.passed


class Mirror:
    """A data folder that is filled from a sandbox, with an account of its own there, on the sandbox's clock."""

    def __init__(self, sandbox: Sandbox, data: Path, **changes: Any) -> None:
        self.sandbox = sandbox
        self.data = lay(data)
        self.settings = settings_of(sandbox, data, **{"projects": PROJECTS, "first_hour": EARLIEST} | changes)
        self.layout = Layout(data)
        #: What is typed into the launchpad.
        self.typed: dict[str, Any] = {}
        self.instance = dg.DagsterInstance.ephemeral(tempdir=str(data.with_name(f"{data.name}-history")))

    def close(self) -> None:
        close_all()
        self.instance.dispose()

    def newest(self, count: int) -> list[datetime]:
        """The newest `count` hours that the service lists at its clock, oldest first."""
        hour = self.sandbox.clock.now().replace(minute=0, second=0, microsecond=0)
        while self.sandbox.world.hour_ready_at(hour) > self.sandbox.clock.now():
            hour -= HOUR
        return [hour - back * HOUR for back in reversed(range(count))]

    def materialize(
        self,
        hours: Iterable[datetime],
        selection: Collection[str] | None = None,
        tags: Mapping[str, str] = MappingProxyType({}),
        **overrides: Any,
    ) -> Made:
        """Materialize consecutive hours in one run, or a `selection`. `overrides` replace this mirror's resources."""
        hours = list(hours)
        return self.run("hours", {**span_of(hours[0], hours[-1]), **tags}, selection, overrides)

    def take_snapshots(self, dataset: Dataset = SNAPSHOT_ARTICLES, **overrides: Any) -> list[Made]:
        """Materialize the three layers of each snapshot of what is mirrored, each in a run of its own."""
        with self.client() as client:
            listed = sorted(record.identifier for record in client.snapshots.listing(dataset).records)
        scope = {f"{project}_namespace_{number}" for project, number in self.settings.scope_of(dataset)}
        return [self.take_snapshot(one, dataset, **overrides) for one in listed if one in scope]

    def take_snapshot(
        self,
        identifier: str,
        dataset: Dataset = SNAPSHOT_ARTICLES,
        selection: Collection[str] | None = None,
        **overrides: Any,
    ) -> Made:
        """Materialize the three layers of one snapshot, or those of `selection`."""
        self.instance.add_dynamic_partitions(dataset.archive, [identifier])
        return self.run(dataset.archive, {PARTITION_NAME_TAG: identifier}, selection, overrides)

    def at(self, beginning: str, do: Callable[[], object]) -> dict[str, Any]:
        """Overrides that call `do` once, when a task begins such as `download 2026-01-05 06:00` (or `convert`)."""
        waiting = [do]

        def hear(line: str) -> None:
            if waiting and line.startswith(beginning):
                waiting.pop()()

        class Watched(ConfiguredEngine):
            def engine(self, say: Callable[[str], None]) -> Engine:
                return Engine(workers=self.settings.workers, reporter=line_reporter(hear))

        return {"engine": Watched(self.settings)}

    def publish(self) -> None:
        """Take what is pending into the current states, and publish; the job does far more."""
        self.warehouse.apply_changes()
        self.warehouse.apply_entity_changes()
        self.warehouse.publish()

    def listen(
        self,
        wanted: int,
        since: datetime | None = None,
        *,
        connections: int = 2,
        say: Callable[[], object] = lambda: None,
        step_seconds: float = 0.05,
        **options: Any,
    ) -> tuple[list[Step], list[str]]:
        """Keep the stream in the lake, as `wme stream` does, until `wanted` events came.

        `say` is called after each step, and further options are those of `keep`. Returns the steps and the warnings.
        """
        steps: list[Step] = []
        warned: list[str] = []

        def hear(step: Step, _lag_seconds: float | None) -> None:
            steps.append(step)
            say()

        how: dict[str, Any] = {"since": since, "clock": self.sandbox.clock.now, "say": hear, "warn": warned.append}
        how |= {"options": StreamOptions(connections=connections), "step_seconds": step_seconds, **options}
        how |= {"ended": lambda: sum(one.row_count for one in steps) >= wanted}
        with self.client() as client:
            keep(client, self.live_lake, self.data / "state", **how)
        return steps, warned

    def published_since(self, since: datetime) -> int:
        """Events of what is mirrored that the stream has since then."""
        scope, now = self.settings.scope_of(ARTICLE_CHANGES), self.sandbox.clock.now()
        every = ((project, self.sandbox.world.events(project, since, now)) for project in self.settings.projects)
        return sum((project, event.title.namespace) in scope for project, events in every for event in events)

    def live_pages(self) -> dict[tuple[str, int], dict[str, Any]]:
        """What analysts find; where an event stood in the stream is not the world's to tell."""
        places = {"event_partition": None, "event_offset": None}
        with Published(self.warehouse) as found:
            return {key: row | places for key, row in found.rows("articles_live").items()}

    def configure(self, **values: Any) -> None:
        self.settings = changed(self.settings, **values)

    def client(self) -> EnterpriseClient:
        return self.resources()["enterprise"].client()

    @property
    def warehouse(self) -> Warehouse:
        return OpenWarehouse(self.data, clock=self.sandbox.clock.now)

    @property
    def live_lake(self) -> LiveLake:
        scope = self.settings.scope_of(ARTICLE_CHANGES)
        return LiveLake(self.layout, LIVE_CHANGES, ARTICLE_CHANGES.table, scope=scope)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of the pipeline's own file; none where there is no file yet."""
        if not (self.data / "warehouse/build.duckdb").exists():
            return []
        with looking(self.warehouse) as connection:
            return connection.execute(query, parameters).fetchall()

    def states(self) -> dict[tuple[datetime, str], str]:
        rows = self.rows("SELECT batch_hour, project_id, state FROM hours WHERE namespace_id = 0")
        return {(hour.astimezone(UTC), project): state for hour, project, state in rows}

    def loaded(self) -> dict[tuple[datetime, str], int]:
        rows = self.rows("SELECT batch_hour, project_id, count(*) FROM article_changes GROUP BY ALL")
        return {(hour.astimezone(UTC), project): count for hour, project, count in rows}

    def archives(self, hour: datetime | None = None) -> list[Path]:
        folder = self.layout.archive if hour is None else self.layout.archive_hour(ARTICLE_CHANGES, hour)
        return sorted(folder.rglob("*.tar.gz"))

    def lake_files(self, table: str = "article_changes") -> list[Path]:
        return sorted((self.layout.lake / table).rglob("*.parquet"))

    def repair(self) -> Rebuilt:
        own = self.resources()
        return repaired(own["lake"], own["warehouse"], ConfiguredEngine(self.settings), lambda _: None)

    def unfinished(self) -> list[str]:
        close_all()  # as the product does after every operation
        found = {path for pattern in UNFINISHED for path in self.data.rglob(pattern) if path.is_file()}
        return sorted(path.relative_to(self.data).as_posix() for path in found)

    def requests(self, ending: str = "/download") -> list[str]:
        """Paths that end so, of the requests of the sandbox's own port seen so far."""
        return [seen.path for seen in list(self.sandbox.requests) if seen.path.endswith(ending)]

    def download_path(self, hour: datetime, project: str) -> str:
        return f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}/{project}_namespace_0/download"

    def truth(self, hours: Sequence[datetime]) -> dict[tuple[datetime, str], int]:
        """Distinct lines of the service's own archives, by (hour, project): what must stand in the warehouse."""
        every = ((hour, batch) for hour in hours for batch in self.sandbox.world.batches(hour))
        found = {(hour, batch.record["identifier"]): batch.path for hour, batch in every}
        wanted = [(hour, project) for hour in hours for project in self.settings.projects]
        paths = {place: found.get((place[0], f"{place[1]}_namespace_0")) for place in wanted}
        return {place: line_count(path) for place, path in paths.items() if path is not None}

    def status_of(self, hour: datetime, asset: str = "warehouse/article_changes") -> str | None:
        """How Dagster shows the partition of an hour: MATERIALIZED, FAILED or None."""
        found = self.instance.get_status_by_partition(dg.AssetKey(asset.split("/")), [key_of(hour)], HOURS) or {}
        return getattr(found.get(key_of(hour)), "value", None)

    def resources(self) -> dict[str, Any]:
        mirror = self

        class Enterprise(ConfiguredEnterprise):
            def client(self, seconds: float | None = None) -> EnterpriseClient:
                service, clock = connection.service(self.settings), mirror.sandbox.clock.now
                return EnterpriseClient(service, state=mirror.data / "state", clock=clock, retry=QUICK)

        class OpenFiles(ConfiguredWarehouse):
            @property
            def warehouse(self) -> Warehouse:
                return mirror.warehouse

        lake = ConfiguredLake(self.settings)
        return {"enterprise": Enterprise(self.settings), "lake": lake, "warehouse": OpenFiles(self.settings)}

    def run(
        self,
        job: str,
        tags: Mapping[str, str] = MappingProxyType({}),
        selection: Collection[str] | None = None,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> Made:
        defs = build_defs(self.settings, **self.resources() | {**overrides})
        failures: list[BaseException | None] = []

        @dg.failure_hook
        def remember(context: dg.HookContext) -> None:
            failures.append(context.op_exception)

        chosen = None if selection is None else [dg.AssetKey(name.split("/")) for name in selection]
        how: dict[str, Any] = {"asset_selection": chosen, "partition_key": tags.get(PARTITION_NAME_TAG)}
        how |= {"instance": self.instance, "tags": tags, "run_config": QUIET | self.typed}
        result = defs.resolve_job_def(job).with_hooks({remember}).execute_in_process(raise_on_error=False, **how)
        # Dagster's events do not tell it, the failure itself does
        allow_retries = getattr(failures[0], "allow_retries", True) if failures else None
        made = Made(result.success, result.run_id, allow_retries)
        for event in result.all_events:
            made.add(event)
        return made


def line_count(archive: Path) -> int:
    with tarfile.open(archive) as tar:
        return len({line for member in tar for line in tar.extractfile(member) or ()})


@contextmanager
def mirrored(
    folder: Path,
    *,
    projects: tuple[str, ...] = PROJECTS,
    namespaces: tuple[int, ...] = (0,),
    wikidata: bool = False,
    **world: Any,
) -> Iterator[Mirror]:
    """A mirror of everything in a sandbox of its own, whose world has these settings."""
    settings = Settings(state=folder / "sandbox", projects=projects, namespaces=namespaces, **world)
    scope = {"projects": projects, "namespaces": namespaces, "wikidata": wikidata}
    with running(settings) as sandbox, closing(Mirror(sandbox, folder / "data", **scope)) as mirror:
        yield mirror
