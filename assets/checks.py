"""Checks of archives, of Parquet files and of rows in DuckDB, and their results as the Dagster UI shows them.

A result lists the first findings, the number of further ones, and the action to take. A run checks the hours or the
snapshot that it processed. Checks started alone examine everything in the archive, but only the last two days of hours.
A snapshot costs 1.5 s of processor time for each GB of archive; its rows cost less than loading them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
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
from resources.warehouse import Comparison, HourAudit, SnapshotAudit, Warehouse

#: Maximum number of findings in a message; the others are only counted.
NAMED = 20
#: Advice for the build file: materializing again does not reload loaded data.
REBUILD = (
    "Stop the runs, remove warehouse/build.duckdb of the data folder and run `wme rebuild`; the published file "
    "remains available."
)
#: Fraction of rejected records above which the check fails.
REJECTS_SHARE = 0.001
#: Maximum number of hours, projects and namespaces shown of the comparison with the stream, largest differences first.
_COMPARED = 50

_Made = TypeVar("_Made")


def format_findings(found: Sequence[str], what_to_do: str, count: int | None = None) -> str | None:
    """Format a check's message; None without findings. `count`: total number of findings, if `found` has only some."""
    if not found:
        return None
    count = len(found) if count is None else count
    more = [f"and {count - NAMED:,} more"] if count > NAMED else []
    # a finding may end with a full stop
    return f"{'; '.join([*map(markdown_text, found[:NAMED]), *more]).removesuffix('.')}. {what_to_do}"


@dataclass(frozen=True)
class Found:
    """Findings of a check as sentences, and the number of checked items.

    `count` is the number of wrong items; None: one for each sentence. `metadata` is shown with the result.
    """

    wrong: Sequence[str]
    looked_at: int
    count: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check(Generic[_Made]):
    """A check of an asset; `find` examines the results of a step, and `what_to_do` is the advice."""

    name: str
    asset: dg.AssetKey
    description: str
    find: Callable[[_Made], Found]
    what_to_do: str
    is_warning: bool = False

    @property
    def spec(self) -> dg.AssetCheckSpec:
        return dg.AssetCheckSpec(self.name, asset=self.asset, description=self.description)

    def result(self, made: _Made, asset_key: dg.AssetKey) -> dg.AssetCheckResult:
        """Return the result for the given data; the asset key has the prefix of the project."""
        found = self.find(made)
        wrong = len(found.wrong) if found.count is None else found.count
        return dg.AssetCheckResult(
            asset_key=asset_key,
            check_name=self.name,
            passed=not found.wrong,
            severity=dg.AssetCheckSeverity.WARN if self.is_warning else dg.AssetCheckSeverity.ERROR,
            description=format_findings(found.wrong, self.what_to_do, found.count),
            metadata={"looked_at": found.looked_at, "wrong": wrong, **found.metadata},
        )


def results(
    checks: Iterable[Check[_Made]], made: _Made, selected: Collection[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """Evaluate the selected checks for the given data."""
    wanted = {(layers.unprefixed(key.asset_key), key.name): key.asset_key for key in selected}
    for check in checks:
        if (asset_key := wanted.get((check.asset, check.name))) is not None:
            yield check.result(made, asset_key)


@dataclass(frozen=True)
class Made:
    """Archives, Parquet files and loaded rows of hours or snapshots; `audit` is called when all are loaded."""

    archives: Mapping[str, Sequence[Archive]]
    conversions: Mapping[str, Sequence[ConvertedFile]]
    audit: Callable[[], Mapping[str, HourAudit | SnapshotAudit]]
    compare: Callable[[], Sequence[Comparison]] = tuple

    @cached_property
    def audits(self) -> Mapping[str, HourAudit | SnapshotAudit]:
        return self.audit()


def of_files(dataset: Dataset) -> list[Check[Made]]:
    """Return the checks of a dataset of hours or snapshots that its columns allow."""
    archive, lake, warehouse = layers.keys(dataset)
    is_hourly, columns = dataset.family is Family.HOURLY, dataset.table.schema.names
    partition, row = ("hour", "event") if is_hourly else ("snapshot", "row")
    checks: list[Check[Made]] = [
        Check(
            "archives_verified",
            archive,
            f"Every archive of the {partition} still has the MD5 reported by the service.",
            _verified,
            f"Remove the file and materialize {archive.to_user_string()} of the {partition} while the service retains "
            "it; after that, restore it from a backup.",
        ),
        Check(
            "rows_accounted",
            lake,
            "The Parquet files have as many rows as their conversion counted.",
            _accounted,
            f"Remove the Parquet file, then materialize {lake.to_user_string()} and {warehouse.to_user_string()} of "
            f"the {partition}; the archive is intact.",
        ),
        Check(
            "rejects_share",
            lake,
            f"At most {REJECTS_SHARE:.1%} of the lines were rejected.",
            _rejects,
            "`wme rejects` counts them by reason; after an update that can read them, run `wme rejects --retry` and "
            "this check again.",
            is_warning=True,
        ),
        Check(
            "fields_known",
            lake,
            "Every field of the records has a column. A field without one is kept in `extra`: it is new, not an error.",
            _known,
            "No data is lost; a newer version may have a column for it.",
            is_warning=True,
        ),
        Check(
            "loaded_whole",
            warehouse,
            f"DuckDB has all rows of the {partition}, except exact duplicates.",
            partial(_audited, _incomplete),
            REBUILD,
        ),
        Check(
            "unique_key",
            warehouse,
            f"No {row} appears twice in one {partition}.",
            partial(_audited, lambda one: one.repeated_count and counted(one.repeated_count, f"repeated {row}")),
            REBUILD,
        ),
        Check(
            "no_event_before_its_hour",
            warehouse,
            "No file of an hour has events from before the hour.",
            partial(_audited, _early),
            "The events are stored and count by their own time, so no action is needed.",
        ),
        Check(
            "agrees_with_stream",
            warehouse,
            "The files of the hour and the realtime stream have the same events, for the part of the hour that the "
            "stream covers.",
            _agreeing,
            "The files are authoritative. Events found only in the stream are missing from the mirror: see `wme "
            "rejects`, or materialize the hour again.",
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
    """Evaluate the selected checks for the hours of a run."""
    warehouse = run.warehouse.warehouse
    made = Made(
        {hour_text(hour): archived.archives for hour, archived in run.archived.items()},
        {hour_text(hour): conversions for hour, conversions in run.conversions.items()},
        lambda: {hour_text(a.batch_hour): a for a in warehouse.audit(run.loaded, run.dataset)},
        lambda: warehouse.compare_stream(run.loaded),
    )
    return results(of_files(run.dataset), made, selected)


def of_snapshots(
    dataset: Dataset,
    made: Mapping[str, tuple[ArchivedSnapshot, Sequence[ConvertedFile]]],
    warehouse: Warehouse,
    selected: Collection[dg.AssetCheckKey],
) -> Iterator[dg.AssetCheckResult]:
    """Evaluate the selected checks for snapshots, by identifier, each with its conversions."""

    def audit() -> dict[str, SnapshotAudit]:
        with warehouse.auditing() as auditor:
            return {one.snapshot_id: one for one in auditor.snapshots(made, dataset)}

    archives = {name: archived.archives for name, (archived, _) in made.items()}
    conversions = {name: files for name, (_, files) in made.items()}
    return results(of_files(dataset), Made(archives, conversions, audit), selected)


def _verified(made: Made) -> Found:
    archives = [(name, archive) for name, archives in made.archives.items() for archive in archives]
    wrong = [
        f"{archive.identifier} of {name} is damaged: {archive.path} has the MD5 {digest}, the service reported "
        f"{archive.version}"
        for name, archive in archives
        if (digest := files.md5_of(archive.path)) != archive.version
    ]
    return Found(wrong, len(archives))


def _accounted(made: Made) -> Found:
    rows = [(name, c, pq.read_metadata(c.path).num_rows) for name, some in made.conversions.items() for c in some]
    wrong = [
        f"{c.identifier} of {name}: {counted(count, 'row')} in {c.path}, {c.row_count:,} counted"
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
            wrong.append(f"{name}: {rejects:,} of {counted(rows + rejects, 'line')} rejected")
    return Found(wrong, looked_at)


def _known(made: Made) -> Found:
    conversions = [c for some in made.conversions.values() for c in some]
    seen_in: dict[str, list[str]] = {}
    for name, some in made.conversions.items():
        for seen in drift_of(some):
            seen_in.setdefault(seen.path, []).append(name)
    wrong = [
        f"{seen.path} in {counted(seen.count, 'place')}, first in {min(seen_in[seen.path])}, for example {seen.example}"
        for seen in drift_of(conversions)
    ]
    return Found(wrong, len(conversions))


def _audited(wrong: Callable[[HourAudit | SnapshotAudit], str | bool | int], made: Made) -> Found:
    answers = [(name, wrong(audit)) for name, audit in made.audits.items()]
    return Found([f"{name}: {text}" for name, text in answers if text], len(answers))


def _incomplete(one: HourAudit | SnapshotAudit) -> str | bool:
    return one.row_count != one.expected_count and f"{counted(one.row_count, 'row')}, {one.expected_count:,} expected"


def _early(one: HourAudit | SnapshotAudit) -> str | bool:
    count = one.early_count if isinstance(one, HourAudit) else 0
    return count > 0 and f"{counted(count, 'event')} before the hour"


def _agreeing(made: Made) -> Found:
    """Compare the hours with the stream; the metadata has the counts and the range of each hour that was compared."""
    try:
        compared = made.compare()
    except MirrorError as error:
        return Found([str(error)], 0)
    rows = [
        {
            "hour": hour_text(one.batch_hour),
            "project": one.project_id,
            "namespace": one.namespace_id,
            "compared": "a part of the hour" if one.is_partial else "the whole hour",
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
