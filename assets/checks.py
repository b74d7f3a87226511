"""Asset checks for archives, Parquet files and DuckDB rows.

A check result lists the first findings, counts the remaining findings and states the action to take. A run checks the
hours or the snapshot that it processed. Checks that run without a materialization examine all archived snapshots
and the last two days of hours. Checking a snapshot takes 1.5 s of CPU time per GB of archive.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Generic, TypeVar

import dagster as dg
import pyarrow.parquet as pq

from assets import layers
from assets.describe import markdown
from assets.steps.hourly_run import HourlyRun
from assets.steps.snapshot import ArchivedSnapshot
from resources import files
from resources.datasets import Dataset, Family
from resources.errors import MirrorError
from resources.formatting import counted, hour_text, markdown_text
from resources.lake import Archive, ConvertedFile, drift_of
from resources.warehouse import Comparison, Row, Warehouse

#: Maximum number of findings that a message lists.
NAMED = 20
#: Advice for a damaged build file. Materializing an asset again does not reload its rows.
REBUILD = (
    "Stop the runs, remove warehouse/build.duckdb from the data folder and run `wme rebuild`. The published file "
    "remains available."
)
#: Fraction of rejected records above which the check fails.
REJECTS_SHARE = 0.001
#: Maximum number of rows in the stream comparison, which lists the largest differences first.
_COMPARED = 50

_Made = TypeVar("_Made")


def format_findings(found: Sequence[str], what_to_do: str, count: int | None = None) -> str | None:
    """Format a check's message, or return None if nothing was found. `count` is the total number of findings."""
    if not found:
        return None
    count = len(found) if count is None else count
    more = [f"and {count - NAMED:,} more"] if count > NAMED else []
    # a finding can end with a full stop
    return f"{'; '.join([*map(markdown_text, found[:NAMED]), *more]).removesuffix('.')}. {what_to_do}"


@dataclass(frozen=True)
class Found:
    """A check's findings as sentences, and the number of checked items.

    `count` is the number of wrong items, or None if each sentence describes one item. The UI shows `metadata` with the
    result.
    """

    wrong: Sequence[str]
    looked_at: int
    count: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check(Generic[_Made]):
    """An asset check. `find` examines the results of a step, and `what_to_do` advises the operator."""

    name: str
    asset: dg.AssetKey
    description: str
    find: Callable[[_Made], Found]
    what_to_do: str
    is_warning: bool = False

    @property
    def spec(self) -> dg.AssetCheckSpec:
        return dg.AssetCheckSpec(self.name, asset=self.asset, description=self.description)


def results(
    checks: Iterable[Check[_Made]], made: _Made, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Run the selected checks. The keys of the selected assets can have a project's prefix."""
    wanted = {(layers.unprefixed(key.asset_key), key.name): key.asset_key for key in selected}
    for check in checks:
        if (asset_key := wanted.get((check.asset, check.name))) is not None:
            found = check.find(made)
            wrong = len(found.wrong) if found.count is None else found.count
            yield dg.AssetCheckResult(
                asset_key=asset_key,
                check_name=check.name,
                passed=not found.wrong,
                severity=dg.AssetCheckSeverity.WARN if check.is_warning else dg.AssetCheckSeverity.ERROR,
                description=format_findings(found.wrong, check.what_to_do, found.count),
                metadata={"looked_at": found.looked_at, "wrong": wrong, **found.metadata},
            )


@dataclass(frozen=True)
class Made:
    """Archives, Parquet files and loaded rows of hours or snapshots. Call the cached `audit` after loading all rows."""

    archives: Mapping[str, Sequence[Archive]]
    conversions: Mapping[str, Sequence[ConvertedFile]]
    audit: Callable[[], Mapping[str, Row]]
    compare: Callable[[], Sequence[Comparison]] = tuple
    lost: Sequence[str] = ()


def of_files(dataset: Dataset) -> list[Check[Made]]:
    """Return the checks that the columns of an hourly or snapshot dataset support."""
    archive, lake, warehouse = layers.keys(dataset)
    is_hourly, columns = dataset.family is Family.HOURLY, dataset.table.schema.names
    partition, row = ("hour", "event") if is_hourly else ("snapshot", "row")
    checks: list[Check[Made]] = [
        Check(
            "archives_verified",
            archive,
            f"Every archive for the {partition} exists and has the MD5 reported by the service.",
            _verified,
            f"Remove a damaged file and materialize {archive.to_user_string()} for this {partition}. If the service "
            "has deleted the file, restore it from a backup.",
        ),
        Check(
            "rows_accounted",
            lake,
            "The Parquet files contain as many rows as the conversion counted.",
            _accounted,
            f"The archive is intact. Remove the Parquet file, then materialize {lake.to_user_string()} and "
            f"{warehouse.to_user_string()} for this {partition}.",
        ),
        Check(
            "rejects_share",
            lake,
            f"At most {REJECTS_SHARE:.1%} of the records were rejected.",
            _rejects,
            "`wme rejects` counts rejected records by reason. After an update that can read these records, run "
            "`wme rejects --retry` and this check again.",
            is_warning=True,
        ),
        Check(
            "fields_known",
            lake,
            "Every record field has a column. Unknown fields are new fields, not errors. `extra` stores them.",
            _known,
            "No data is lost. A newer version might have a column for the field.",
            is_warning=True,
        ),
        Check(
            "loaded_whole",
            warehouse,
            f"DuckDB contains every row of the {partition}, except exact duplicates.",
            partial(_audited, _incomplete),
            REBUILD,
        ),
        Check(
            "unique_key",
            warehouse,
            f"No {row} appears twice in the same {partition}.",
            partial(_audited, lambda one: one.repeated_count and counted(one.repeated_count, f"repeated {row}")),
            REBUILD,
        ),
        Check(
            "no_event_before_its_hour",
            warehouse,
            "No hourly file contains events from before its hour.",
            partial(_audited, _early),
            "No action is needed: the events are stored with their own timestamps.",
        ),
        Check(
            "agrees_with_stream",
            warehouse,
            "The hourly files and the realtime stream contain the same events, for the part of the hour that the "
            "stream covers.",
            _agreeing,
            "The files are authoritative. Events that appear only in the stream are missing from the mirror. See "
            "`wme rejects`, or materialize the hour again.",
            is_warning=True,
        ),
    ]
    possible = {
        "fields_known": "extra" in columns,
        "unique_key": bool(dataset.table.key),
        "no_event_before_its_hour": is_hourly and "event_at" in columns,
        "agrees_with_stream": dataset.stream is not None,
    }
    return [check for check in checks if possible.get(check.name, True)]


def of_run(run: HourlyRun, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
    warehouse = run.warehouse.warehouse
    made = Made(
        {hour_text(hour): archived.archives for hour, archived in run.archived.items()},
        {hour_text(hour): conversions for hour, conversions in run.conversions.items()},
        cache(lambda: {hour_text(a.batch_hour): a for a in warehouse.audit(run.loaded, run.dataset)}),
        lambda: warehouse.compare_stream(run.loaded),
        run.lost,
    )
    return results(of_files(run.dataset), made, selected)


def of_snapshots(
    dataset: Dataset,
    made: Mapping[str, tuple[ArchivedSnapshot, Sequence[ConvertedFile]]],
    warehouse: Warehouse,
    selected: Collection[dg.AssetCheckKey],
    lost: Sequence[str] = (),
) -> Iterator[dg.AssetCheckResult]:
    """Run the selected checks on snapshots. `made` maps identifiers to archived snapshots and their conversions."""

    @cache
    def audit() -> dict[str, Row]:
        with warehouse.auditing() as auditor:
            return auditor.snapshots(made, dataset)

    archives = {name: archived.archives for name, (archived, _) in made.items()}
    conversions = {name: files for name, (_, files) in made.items()}
    return results(of_files(dataset), Made(archives, conversions, audit, lost=lost), selected)


def _verified(made: Made) -> Found:
    archives = [(name, archive) for name, archives in made.archives.items() for archive in archives]
    wrong = [
        f"{archive.identifier} of {name} is damaged: {archive.path} has the MD5 {digest}, but the service reported "
        f"{archive.version}"
        for name, archive in archives
        if (digest := files.md5_of(archive.path)) != archive.version
    ]
    return Found([*made.lost, *wrong], len(archives) + len(made.lost))


def _accounted(made: Made) -> Found:
    rows = [(name, c, pq.read_metadata(c.path).num_rows) for name, some in made.conversions.items() for c in some]
    wrong = [
        f"{c.identifier} of {name}: {c.path} contains {counted(count, 'row')}, but the conversion counted "
        f"{c.row_count:,}"
        for name, c, count in rows
        if count != c.row_count
    ]
    return Found(wrong, len(rows))


def _rejects(made: Made) -> Found:
    wrong, looked_at = [], 0
    for name, some in made.conversions.items():
        rows, rejects = sum(c.row_count for c in some), sum(c.reject_count for c in some)
        looked_at += rows + rejects
        if rejects > REJECTS_SHARE * (rows + rejects):
            wrong.append(f"{name}: {rejects:,} of {counted(rows + rejects, 'record')} were rejected")
    return Found(wrong, looked_at)


def _known(made: Made) -> Found:
    conversions = [c for some in made.conversions.values() for c in some]
    seen_in: dict[str, list[str]] = {}
    for name, some in made.conversions.items():
        for seen in drift_of(some):
            seen_in.setdefault(seen.path, []).append(name)
    wrong = [
        f"{seen.path} appears {counted(seen.count, 'time')}, first in {min(seen_in[seen.path])}, with the value "
        f"{seen.example}"
        for seen in drift_of(conversions)
    ]
    return Found(wrong, len(conversions))


def _audited(wrong: Callable[[Row], str | bool | int], made: Made) -> Found:
    answers = [(name, wrong(audit)) for name, audit in made.audit().items()]
    return Found([f"{name}: {text}" for name, text in answers if text], len(answers))


def _incomplete(one: Row) -> str | bool:
    return one.row_count != one.expected_count and f"{counted(one.row_count, 'row')} instead of {one.expected_count:,}"


def _early(one: Row) -> str | bool:
    return one.early_count > 0 and f"{counted(one.early_count, 'event')} from before the hour"


def _agreeing(made: Made) -> Found:
    """Compare hourly files with the stream. The metadata contains the counts and the compared range for each hour."""
    try:
        compared = made.compare()
    except MirrorError as error:
        return Found([str(error)], 0)
    rows = [
        {
            "hour": hour_text(one.batch_hour),
            "project": one.project_id,
            "namespace": one.namespace_id,
            "compared": "part of the hour" if one.is_partial else "the complete hour",
            "stream": one.stream_count,
            "file": one.file_count,
            "only in the stream": one.only_in_stream_count,
            "only in the file": one.only_in_file_count,
            "different": one.different_count,
        }
        for one in sorted(compared, key=lambda one: -one.difference_count)[:_COMPARED]
    ]
    wrong = [str(one) for one in compared if one.difference_count]
    return Found(wrong, len(compared), metadata={"comparison": markdown(rows, tuple(rows[0]))} if rows else {})
