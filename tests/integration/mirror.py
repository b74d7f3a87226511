"""A whole mirror in a temporary folder: the sandbox as the service, a data folder, and the assets run in this process.

Belongs here: running the assets and looking at what they left. Does not belong here: what tests expect of it.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)
from pydantic import SecretStr

from assets.layers import EARLIEST, HOUR, hour_of, key_of
from assets.steps.rebuilding import Rebuilt, repaired
from pipelines.definitions import build_defs
from resources import connection
from resources.adapters import ConfiguredEngine, ConfiguredEnterprise, ConfiguredLake, ConfiguredWarehouse
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES, Dataset
from resources.engine import Engine, line_reporter
from resources.enterprise import EnterpriseClient
from resources.lake import Layout
from resources.sandbox import Sandbox, Settings, running
from resources.settings import Settings as PipelineSettings
from resources.warehouse import Warehouse
from tests.builds import OpenWarehouse, close_all, lay, looking
from tests.integration.clients import QUICK
from tests.integration.daemon import QUIET

PROJECTS = ("enwiki", "frwiki")
#: Names that unfinished work may have, anywhere in a data folder.
UNFINISHED = ("*.part", "*.part.*", "*.tmp", ".*.tmp", "*.unfinished", "*.wal")

_numbers = itertools.count(1)


@dataclass
class Made:
    """What one run did, as Dagster tells it.

    Attributes:
        sentences: Descriptions of the failed steps, in order.
        allow_retries: Of the first failed step; None where none failed.
        hours: Hours materialized, by asset key as text (`archive/batches`); assets without partition have [].
        checks: Whether each check passed, by name.
        metadata: Of each materialization, by (asset key, hour).
    """

    success: bool
    sentences: list[str] = field(default_factory=list)
    allow_retries: bool | None = None
    hours: dict[str, list[datetime]] = field(default_factory=dict)
    checks: dict[str, bool] = field(default_factory=dict)
    metadata: dict[tuple[str, datetime | None], dict[str, Any]] = field(default_factory=dict)
    run_id: str = ""

    @property
    def sentence(self) -> str:
        """The failure as one text."""
        return "\n".join(self.sentences)


class Mirror:
    """A data folder that is filled from a sandbox, with an account of its own there, on the sandbox's clock.

    The environment has another password: everything comes from the settings.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        data: Path,
        environment: pytest.MonkeyPatch,
        *,
        projects: Sequence[str] = PROJECTS,
        namespaces: Sequence[int] = (0,),
        wikidata: bool = False,
    ) -> None:
        number = next(_numbers)
        self.sandbox = sandbox
        self.data = lay(data)
        self.username = f"operator{number}"
        self.password = f"Passw0rd-{number}-{random.getrandbits(64):x}"
        sandbox.accounts.create(self.username, self.password, groups=["group_3"])
        environment.setenv("WME_PASSWORD", "not the account's")
        self.settings = PipelineSettings(
            username=self.username,
            password=self.password,
            auth_url=sandbox.url,
            base_url=sandbox.url,
            realtime_url=sandbox.url,
            projects=tuple(projects),
            namespaces=tuple(namespaces),
            wikidata=wikidata,
            data=data,
            sandbox=False,
            min_free_gb=0,
            first_hour=EARLIEST,
        )
        self.layout = Layout(data)
        #: What is typed into the launchpad.
        self.typed: dict[str, Any] = {}
        self.instance = dg.DagsterInstance.ephemeral(tempdir=str(data.with_name(f"{data.name}-history")))

    def close(self) -> None:
        """Forget the history of runs."""
        close_all()
        self.instance.dispose()

    # --- what a test does --------------------------------------------------------------------------------------------

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
        tags: Mapping[str, str] | None = None,
        **overrides: Any,
    ) -> Made:
        """Materialize the hourly layers of consecutive hours in one run.

        Args:
            hours: Consecutive hours.
            selection: Asset keys as text; default: archive, lake and warehouse.
            tags: Further tags of the run.
            overrides: Resources in place of this mirror's own.
        """
        hours = list(hours)
        span = {ASSET_PARTITION_RANGE_START_TAG: key_of(hours[0]), ASSET_PARTITION_RANGE_END_TAG: key_of(hours[-1])}
        return self._run("hours", {**span, **(tags or {})}, selection, overrides)

    def take_snapshots(
        self, identifiers: Iterable[str] | None = None, dataset: Dataset = SNAPSHOT_ARTICLES, **overrides: Any
    ) -> list[Made]:
        """Materialize the three layers of snapshots, each in a run of its own.

        Default: those of all that is mirrored.
        """
        with self.client() as client:
            listed = sorted(record.identifier for record in client.snapshots.listing(dataset).records)
        scope = {f"{project}_namespace_{number}" for project, number in self.settings.scope_of(dataset)}
        wanted = [one for one in listed if one in scope] if identifiers is None else list(identifiers)
        return [self.take_snapshot(one, dataset, **overrides) for one in wanted]

    def take_snapshot(
        self,
        identifier: str,
        dataset: Dataset = SNAPSHOT_ARTICLES,
        selection: Collection[str] | None = None,
        **overrides: Any,
    ) -> Made:
        """Materialize the three layers of one snapshot, or those of `selection`."""
        self.instance.add_dynamic_partitions(dataset.archive, [identifier])
        return self._run(dataset.archive, {PARTITION_NAME_TAG: identifier}, selection, overrides)

    def at(self, beginning: str, do: Callable[[], object]) -> dict[str, Any]:
        """Overrides for `materialize` with which `do` is called once, when a task is begun whose label begins so.

        Labels are `download 2026-01-05 06:00` and `convert 2026-01-05 06:00`.
        """
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

    def look_up(self) -> Made:
        """Look up watched and uncertain pages, then a sample."""
        return self._run("lookups", {}, None, {})

    def reference(self) -> Made:
        """Pull the reference lists through all layers."""
        return self._run("reference", {}, None, {})

    def configure(self, **values: Any) -> None:
        """Change settings, for example `password=None`."""
        secrets = {name: SecretStr(value) for name, value in values.items() if name == "password" and value is not None}
        self.settings = self.settings.model_copy(update=values | secrets)

    @contextmanager
    def client(self) -> Iterator[EnterpriseClient]:
        """A client as the pipeline has it, for the account of this mirror."""
        with self._enterprise().client() as client:
            yield client

    # --- what a test looks at ----------------------------------------------------------------------------------------

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse, on the sandbox's clock."""
        return OpenWarehouse(self.data, clock=self.sandbox.clock.now)

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of the pipeline's own file; none where there is no file yet."""
        if not (self.data / "warehouse/build.duckdb").exists():
            return []
        with looking(self.warehouse) as connection:
            return connection.execute(query, parameters).fetchall()

    def states(self) -> dict[tuple[datetime, str], str]:
        """The coverage: state by (hour, project) in namespace 0."""
        return {
            (hour.astimezone(UTC), project): state
            for hour, project, state in self.rows(
                "SELECT batch_hour, project_id, state FROM hours WHERE namespace_id = 0"
            )
        }

    def loaded(self) -> dict[tuple[datetime, str], int]:
        """Rows of `article_changes` by (hour, project)."""
        return {
            (hour.astimezone(UTC), project): count
            for hour, project, count in self.rows(
                "SELECT batch_hour, project_id, count(*) FROM article_changes GROUP BY ALL"
            )
        }

    def archives(self, hour: datetime | None = None) -> list[Path]:
        """The archives that were landed, of an hour or of all."""
        folder = self.layout.archive if hour is None else self.layout.archive_hour(ARTICLE_CHANGES, hour)
        return sorted(folder.rglob("*.tar.gz"))

    def lake_files(self, table: str = "article_changes") -> list[Path]:
        """The Parquet files of a table."""
        return sorted((self.layout.lake / table).rglob("*.parquet"))

    def repair(self) -> Rebuilt:
        """Make lake files that are gone or damaged again from the archive."""
        own = self.resources()
        return repaired(own["lake"], own["warehouse"], ConfiguredEngine(self.settings), lambda _: None)

    def unfinished(self) -> list[str]:
        """Temporary files anywhere in the data folder, as relative paths."""
        close_all()  # as the product does after every operation
        return sorted(
            {
                path.relative_to(self.data).as_posix()
                for pattern in UNFINISHED
                for path in self.data.rglob(pattern)
                if path.is_file()
            }
        )

    def requests(self, ending: str = "/download") -> list[str]:
        """Paths that end so, of the requests of the sandbox's own port seen so far."""
        return [seen.path for seen in list(self.sandbox.requests) if seen.path.endswith(ending)]

    def download_path(self, hour: datetime, project: str) -> str:
        """The service's path of a download."""
        return f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}/{project}_namespace_0/download"

    def truth(self, hours: Sequence[datetime]) -> dict[tuple[datetime, str], int]:
        """Distinct lines of the service's own archives, by (hour, project): what must stand in the warehouse."""
        import gzip
        import tarfile

        counts: dict[tuple[datetime, str], int] = {}
        for hour in hours:
            for batch in self.sandbox.world.batches(hour):
                project = batch.record["is_part_of"]["identifier"]
                if project not in self.settings.projects or batch.record["namespace"]["identifier"] != 0:
                    continue
                lines: set[bytes] = set()
                with gzip.open(batch.path) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
                    for member in tar:
                        file = tar.extractfile(member)
                        assert file is not None
                        lines.update(file.read().splitlines())
                counts[hour, project] = len(lines)
        return counts

    def status_of(self, hour: datetime, asset: str = "warehouse/article_changes") -> str | None:
        """How Dagster shows the partition of an hour: MATERIALIZED, FAILED or None."""
        from assets.layers import HOURS

        found = self.instance.get_status_by_partition(dg.AssetKey(asset.split("/")), [key_of(hour)], HOURS) or {}
        status = found.get(key_of(hour))
        return None if status is None else status.value

    # --- within ------------------------------------------------------------------------------------------------------

    def _enterprise(self) -> ConfiguredEnterprise:
        mirror = self

        class OnSandboxClock(ConfiguredEnterprise):
            @contextmanager
            def client(self, seconds: float | None = None) -> Iterator[EnterpriseClient]:
                with EnterpriseClient(
                    connection.service(self.settings),
                    state=mirror.data / "state",
                    clock=mirror.sandbox.clock.now,
                    retry=QUICK,
                ) as client:
                    yield client

        return OnSandboxClock(self.settings)

    def resources(self) -> dict[str, Any]:
        """Resources on the sandbox's clock."""
        mirror = self

        class OnSandboxClock(ConfiguredWarehouse):
            @property
            def warehouse(self) -> Warehouse:
                return mirror.warehouse

        return {
            "enterprise": self._enterprise(),
            "lake": ConfiguredLake(self.settings),
            "warehouse": OnSandboxClock(self.settings),
        }

    def _run(
        self, job: str, tags: dict[str, str], selection: Collection[str] | None, overrides: dict[str, Any]
    ) -> Made:
        defs = build_defs(self.settings, **self.resources() | overrides)
        failures: list[BaseException | None] = []

        @dg.failure_hook
        def remember(context: dg.HookContext) -> None:
            failures.append(context.op_exception)

        result = (
            defs.resolve_job_def(job)
            .with_hooks({remember})
            .execute_in_process(
                instance=self.instance,
                tags=tags,
                partition_key=tags.get(PARTITION_NAME_TAG),
                raise_on_error=False,
                asset_selection=None if selection is None else [dg.AssetKey(name.split("/")) for name in selection],
                run_config=QUIET | self.typed,
            )
        )
        return _made(result, failures)


@contextmanager
def mirrored(
    folder: Path,
    environment: pytest.MonkeyPatch,
    *,
    projects: Sequence[str] = PROJECTS,
    namespaces: Sequence[int] = (0,),
    wikidata: bool = False,
    **world: Any,
) -> Iterator[Mirror]:
    """A mirror of everything in a sandbox of its own, whose world has these settings."""
    settings = Settings(state=folder / "sandbox", projects=projects, namespaces=namespaces, **world)
    scope = {"projects": projects, "namespaces": namespaces, "wikidata": wikidata}
    with running(settings) as sandbox, closing(Mirror(sandbox, folder / "data", environment, **scope)) as mirror:
        yield mirror


def _made(result: dg.ExecuteInProcessResult, failures: list[BaseException | None]) -> Made:
    made = Made(result.success, run_id=result.run_id)
    if failures:
        # Dagster's events do not tell it, the failure itself does
        made.allow_retries = getattr(failures[0], "allow_retries", True)
    hours: dict[str, list[datetime]] = defaultdict(list)
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            told = data.user_failure_data
            if told is not None and told.description:
                made.sentences.append(told.description)
            elif data.error is not None:
                made.sentences.append(f"UNTOLD {data.error.to_string()}")
        elif event.is_step_materialization:
            key = event.asset_key.to_user_string()
            hour = None
            with suppress(ValueError):  # a snapshot's name
                hour = None if event.partition is None else hour_of(event.partition)
            hours[key] += [] if hour is None else [hour]
            materialization = event.step_materialization_data.materialization
            made.metadata[key, hour] = {name: value.value for name, value in materialization.metadata.items()}
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            checked = event.asset_check_evaluation_data
            made.checks[checked.check_name] = checked.passed
    made.hours = dict(hours)
    return made
