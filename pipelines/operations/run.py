"""The main job, which runs Dagster's jobs for lists, snapshots, hours and the publication in this process."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import dagster as dg

from assets import layers
from assets.describe import WORKED_AT
from assets.layers import HOUR, RunTag, hour_of, key_of
from assets.published import KEY as PUBLISHED
from assets.published import REPAIRED, WHEN_DUE
from pipelines.automation import discovery, jobs
from pipelines.definitions import build_defs, first_hour
from pipelines.process import processes
from pipelines.process.processes import CommandRuns
from resources import connection, datasets
from resources.datasets import RETENTION, Dataset, Family, last_complete_hour
from resources.enterprise import EnterpriseClient
from resources.enterprise.errors import EnterpriseError, NotPublishedYet, RetentionPassed, UnreachableError
from resources.formatting import counted, hour_text
from resources.lake import Layout
from resources.settings import Settings, SettingsError
from resources.warehouse import Warehouse, WarehouseBusyError

#: First and maximum delay in seconds between two attempts to reach a host. The delay doubles after each attempt.
WAIT_SECONDS = (1.0, 60.0)


@dataclass
class RunReport:
    """Outcome of a run, without the data.

    Attributes:
        failures: Message for each failure, in order of occurrence.
        hours: Hours of the run in order, except hours that were only loaded from the archive.
        seconds: Download and conversion seconds by (table, hour, archive).
        unavailable: Component that failed (`service` or `warehouse`). Jobs that need this component were skipped.
        unreachable: True if a host could not be reached. A later attempt can succeed.
        repaired: Sentences about missing or damaged lake files that the publication found.
    """

    failures: list[str] = field(default_factory=list)
    hours: list[datetime] = field(default_factory=list)
    seconds: dict[tuple[str, datetime, str], float] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)
    unreachable: bool = False
    repaired: str = ""


_PUBLISHING = "Current articles and the published file"
#: Commands report runs in tables and sentences instead of Dagster's log.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def newest_hours(client: EnterpriseClient, count: int, now: datetime, dataset: Dataset) -> list[datetime]:
    """Return the `count` newest hours that the service has published and still has, oldest first.

    A batch listing appears a few minutes after its hour ends, so the newest complete hour can be missing. Raises
    NotPublishedYet if none of the last six hours has been published.
    """
    newest = last_complete_hour(now)
    for _ in range(5):
        with suppress(NotPublishedYet):
            client.hours.listing(newest, dataset)
            break
        newest -= HOUR
    else:
        client.hours.listing(newest, dataset)
    hours = [newest - back * HOUR for back in reversed(range(count))]
    # retention counts from the start of an hour, so the oldest of 48 hours is usually gone
    while len(hours) > 1 and now - hours[0] >= RETENTION:
        with suppress(RetentionPassed):
            client.hours.listing(hours[0], dataset)
            break
        del hours[0]
    return hours


def is_reachable(settings: Settings) -> bool:
    """Return True if the service responds. Each connection is attempted once."""
    with connection.client(settings, seconds=20.0) as client:
        try:
            client.hours.listing(last_complete_hour(datetime.now(UTC)))
        except EnterpriseError as error:
            # other failures mean that the service has responded, or are reported by the run itself
            return not isinstance(error, UnreachableError)
    return True


def hours_between(first: datetime, last: datetime) -> list[datetime]:
    return [first + number * HOUR for number in range(int((last - first) / HOUR) + 1)]


def run(
    settings: Settings,
    hours: Sequence[datetime],
    *,
    snapshots: Mapping[Dataset, Sequence[str]] | None = None,
    refresh_reference: bool | None = None,
    with_lacking: bool = False,
    say: Callable[[str], None] = lambda _: None,
    **overrides: Any,
) -> RunReport:
    """Run the jobs for reference lists, snapshots, hours, current articles, and the published file.

    Nothing is published unless a publication is due. Archived snapshots and hours that are not loaded are loaded as
    well. If an hour or a snapshot fails, all other data is published, and the report contains the failure.

    Args:
        settings: Settings of the mirror.
        hours: Consecutive hours to fetch and load.
        snapshots: Identifiers of snapshots to fetch in their newest version, by dataset.
        refresh_reference: True to fetch the reference lists, False to skip them, or None to fetch them if due.
        with_lacking: True to also fetch earlier missing hours that the service still retains.
        say: Function that receives a line before each job.
        **overrides: Resources that replace the configured resources, by resource key.

    Raises SettingsError for hours before the mirror's first hour, and KeyboardInterrupt if a job was interrupted.
    """
    first = first_hour(settings, *hours)
    if hours and hours[0] < first:
        raise SettingsError(
            f"{hour_text(hours[0])} UTC is before {hour_text(first)}, the mirror's first hour. Nothing was done. "
            "Choose later hours. If older hours are archived, set WME_FIRST_HOUR."
        )
    with _run_here(settings, hours, say, **overrides) as here:
        if refresh_reference is None:
            layout, warehouse = Layout(settings.data), Warehouse(settings.data)
            refresh_reference = discovery.reference_due(layout, warehouse, datetime.now(UTC))
        if refresh_reference:
            here.execute("Reference lists", jobs.REFERENCE)
        for dataset, names in (snapshots or {}).items():
            for name in names:
                here.execute(f"Snapshot {name} ({dataset.name})", dataset.archive, partition_key=name)
        for dataset in filter(settings.scope_of, datasets.datasets(Family.SNAPSHOT)):
            names, unreadable = discovery.archived_snapshots(dataset, settings)
            here.report.failures += unreadable
            for name in names:
                line = f"Snapshot {name} ({dataset.name}), from the archive"
                here.execute(line, dataset.archive, partition_key=name, archived=dataset)
        lacking = discovery.lacking_hours(settings, hours[-1], datetime.now(UTC)) if hours and with_lacking else ()
        here.report.hours = sorted({*hours, *(hour for hour in lacking if hour >= first)})
        here.load(here.report.hours)
        for dataset in filter(settings.scope_of, datasets.datasets(Family.HOURLY)):
            here.load({*discovery.archived_hours(dataset, settings)} - {*here.report.hours}, archived=dataset)
        here.execute(_PUBLISHING, jobs.PUBLISH, WHEN_DUE)
    return here.report


def publish(settings: Settings, **overrides: Any) -> RunReport:
    """Apply pending hours and snapshots to the current articles, and publish even if no publication is due."""
    with _run_here(settings, **overrides) as here:
        here.execute(_PUBLISHING, jobs.PUBLISH)
    return here.report


def look_up(settings: Settings, **overrides: Any) -> RunReport:
    """Look up watched and uncertain pages within the day's budget, and publish if due."""
    with _run_here(settings, **overrides) as here:
        here.execute("Lookups", jobs.LOOKUPS)
        here.execute(_PUBLISHING, jobs.PUBLISH, WHEN_DUE)
    return here.report


class _Here:
    """Runner that executes jobs one after another in this process and collects their results in a report."""

    def __init__(
        self, defs: dg.Definitions, instance: dg.DagsterInstance, runs: CommandRuns, say: Callable[[str], None]
    ) -> None:
        self.report = RunReport()
        self._defs, self._instance, self._runs, self._say = defs, instance, runs, say

    def load(self, hours: Iterable[datetime], archived: Dataset | None = None) -> None:
        """Fetch and load each span of consecutive hours, or load a dataset's archived hours."""
        source = "" if archived is None else f" ({archived.name}), from the archive"
        for _, numbered in groupby(enumerate(sorted(hours)), lambda one: one[1] - one[0] * HOUR):
            span = [hour for _, hour in numbered]
            tags = {RunTag.RANGE_START: key_of(span[0]), RunTag.RANGE_END: key_of(span[-1])}
            line = f"Hours {hour_text(span[0])} to {hour_text(span[-1])} UTC{source}"
            self.execute(line, jobs.HOURS, tags, archived=archived)

    def execute(
        self,
        line: str,
        job: str,
        tags: Mapping[str, str] | None = None,
        *,
        archived: Dataset | None = None,
        partition_key: str | None = None,
    ) -> None:
        """Run one job, or only its assets after a dataset's archive, and add durations and failures to the report."""
        # do not send a refused password again, which can lock the account, and do not wait twice for a lock
        if self.report.unavailable and archived is None and job != jobs.PUBLISH:
            return
        self._say(line)
        if partition_key is not None:
            self._instance.add_dynamic_partitions(job, [partition_key])
        definition = self._defs.resolve_job_def(job)
        with self._runs.run() as run_id:
            result = definition.execute_in_process(
                instance=self._instance,
                tags={**self._runs.tags, **(tags or {})},
                raise_on_error=False,
                asset_selection=None if archived is None else layers.keys(archived)[1:],
                partition_key=partition_key,
                run_config=_QUIET,
                run_id=run_id,
            )
        failed: dict[str, list[str]] = {}
        steps = {f"hourly_{one.archive}": one.name for one in datasets.datasets(Family.HOURLY)}
        tables = {layers.lake_key(one): one.name for one in datasets.datasets(Family.HOURLY)}
        for event in result.all_events:
            if event.is_step_materialization:
                made = event.step_materialization_data.materialization
                table, metadata = tables.get(made.asset_key), made.metadata
                if table is not None and made.partition is not None and WORKED_AT not in metadata:
                    seconds: Any = metadata["seconds_by_archive"].value
                    hour = hour_of(made.partition)
                    self.report.seconds |= {(table, hour, name): taken for name, taken in seconds.items()}
                elif made.asset_key == PUBLISHED and REPAIRED in metadata:
                    self.report.repaired = str(metadata[REPAIRED].value)
            if not event.is_step_failure:
                continue
            data = event.step_failure_data
            if data.error is not None and data.error.cls_name == "DagsterExecutionInterruptedError":
                # Dagster turns an interrupt into a failed step, but the complete run must end
                raise KeyboardInterrupt
            told, error = data.user_failure_data, data.error and (data.error.cause or data.error)
            said = {} if told is None else told.metadata
            if (missing := said.get("unavailable")) is not None:
                self.report.unavailable.add(str(missing.value))
                self.report.unreachable |= missing.value == "service" and bool(said["retryable"].value)
            name, sentence = steps.get(event.step_key or "", ""), (told and told.description) or ""
            if error and not sentence:
                sentence = f"{event.step_key}: {error.message.strip()}"
            failed.setdefault(sentence.removeprefix(f"{name}: "), []).append(name)
        # a job over several datasets prefixes each failure with its dataset, unless all datasets have the same failure
        ran = {steps[event.step_key] for event in result.all_events if event.step_key in steps}
        sentences = [
            f"{', '.join(of)}: {sentence}" if len(ran) > 1 and set(of) < ran else sentence
            for sentence, of in failed.items()
        ]
        if not result.success and not sentences:
            sentences.append(f"The job {job} failed before its first step. Dagster's run history contains the run.")
        self.report.failures += [sentence for sentence in sentences if sentence not in self.report.failures]
        if "warehouse" in self.report.unavailable:
            raise WarehouseBusyError(self.report.failures[-1])


@contextmanager
def _run_here(
    settings: Settings, hours: Sequence[datetime] = (), say: Callable[[str], None] = lambda _: None, **overrides: Any
) -> Iterator[_Here]:
    """Tag the block's runs with this process, so that they are not mistaken for killed runs. The runs print nothing.

    The block ends early if the warehouse is unavailable.
    """
    defs = build_defs(settings, asked=hours, all_datasets=True, **overrides)
    with processes.opened(settings.dagster_home) as instance, processes.under_way(instance) as runs:
        here = _Here(defs, instance, runs, say)
        try:
            yield here
        except WarehouseBusyError as error:
            here.report.unavailable.add("warehouse")
            if str(error) not in here.report.failures:
                here.report.failures.append(str(error))


def outlast(
    attempt: Callable[[], RunReport], answers: Callable[[], bool], minutes: float, say: Callable[[str], None]
) -> RunReport:
    """Repeat `attempt` until every host is reachable, and return the report from the last attempt.

    Later attempts do not repeat completed work. `answers` tries once to reach the service. The total waiting time is at
    most `minutes`. `say` receives a line when a wait begins and when it ends.
    """
    left, pause = minutes * 60, WAIT_SECONDS[0]
    while (report := attempt()).unreachable and left > 0:
        say("\n".join(report.failures))
        say(f"Waiting up to {counted(round(left / 60), 'minute')} for the host. Ctrl-C stops waiting.")
        found = False
        while not found and left > 0:
            began = time.monotonic()
            time.sleep(min(pause, left))
            found = answers()
            left -= time.monotonic() - began
            pause = min(2 * pause, WAIT_SECONDS[1])
        if not found:
            report.failures.append(f"The host was still unreachable after {counted(round(minutes), 'minute')}.")
            break
        say("The host is reachable again. The run continues.")
    return report
