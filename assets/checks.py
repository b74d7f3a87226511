"""Checks: what must hold of the hours just made, and what must hold at any time.

Belongs here: what is asked and what is said when it does not hold. Does not belong here: the SQL that looks (see
`resources.warehouse`), and anything that mends.

A blocking check stops assets of its own run only, so none of these is relied on to keep bad data out: the loader refuses
unverified input by itself. They are there for people.
"""

import hashlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime

import dagster as dg
import pyarrow.parquet as pq

from assets.describe import drift_of
from assets.ingest import ARCHIVE, LAKE, WAREHOUSE, HourlyRun
from assets.partitions import HOURS, RETENTION, last_complete_hour
from resources.adapters import EnterpriseResource, WarehouseResource
from resources.formatting import hour_text
from resources.tables import HourState

_PUBLISHED = dg.AssetKey(["published", "warehouse"])

#: Share of an hour's lines that may be rejected before somebody should look.
REJECTS_SHARE = 0.001

#: States that need no attention. `not_yet` is not a gap either: the service has not published the hour.
COVERED = frozenset({HourState.LOADED, HourState.EMPTY, HourState.ABSENT, HourState.NOT_YET})

_VERIFIED = dg.AssetCheckSpec(
    "archives_verified",
    asset=ARCHIVE,
    description="Every archive of the hour still has the MD5 that the service told.",
)
_ACCOUNTED = dg.AssetCheckSpec(
    "rows_accounted", asset=LAKE, description="The Parquet files hold the rows that their conversion counted."
)
_REJECTS = dg.AssetCheckSpec(
    "rejects_share", asset=LAKE, description=f"At most {REJECTS_SHARE:.1%} of the lines were rejected."
)
_KNOWN = dg.AssetCheckSpec(
    "fields_known",
    asset=LAKE,
    description="Every field of the records has a column. One that has none is kept in `extra`: it is news, and no loss.",
)
_LOADED = dg.AssetCheckSpec(
    "loaded_whole",
    asset=WAREHOUSE,
    description="DuckDB holds the hour's rows, less the exact duplicates within a file.",
)
_UNIQUE = dg.AssetCheckSpec("unique_key", asset=WAREHOUSE, description="No event stands twice in one hour.")
_IN_HOUR = dg.AssetCheckSpec(
    "no_event_before_its_hour", asset=WAREHOUSE, description="An hour's file begins with the hour."
)
HOURLY = [_VERIFIED, _ACCOUNTED, _REJECTS, _KNOWN, _LOADED, _UNIQUE, _IN_HOUR]


def of_run(run: HourlyRun, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
    """Answer the selected checks for the hours that a run made."""
    for spec, answer in (
        (_VERIFIED, _verified),
        (_ACCOUNTED, _accounted),
        (_REJECTS, _rejects),
        (_KNOWN, _known),
    ):
        if spec.key in selected:
            yield answer(run)
    if any(spec.key in selected for spec in (_LOADED, _UNIQUE, _IN_HOUR)):
        names = {key.name for key in selected if key.asset_key == WAREHOUSE}
        yield from (result for result in _audited(run) if result.check_name in names)


def _result(spec: dg.AssetCheckSpec, wrong: list[str], looked_at: int, *, warn: bool = False) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=spec.asset_key,
        check_name=spec.name,
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN if warn else dg.AssetCheckSeverity.ERROR,
        description="; ".join(wrong[:20]) or None,
        metadata={"looked_at": looked_at, "wrong": len(wrong)},
    )


def _verified(run: HourlyRun) -> dg.AssetCheckResult:
    archives = [archive for archived in run.archived.values() for archive in archived.archives]
    wrong = []
    for archive in archives:
        with archive.path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if digest != archive.version:
            wrong.append(
                f"{archive.identifier} of {hour_text(archive.batch_hour)} is damaged: MD5 {digest}, told {archive.version}"
            )
    return _result(_VERIFIED, wrong, len(archives))


def _accounted(run: HourlyRun) -> dg.AssetCheckResult:
    conversions = [c for made in run.conversions.values() for c in made]
    wrong = []
    for c in conversions:
        rows = pq.read_metadata(c.path).num_rows
        if rows != c.row_count:
            wrong.append(f"{c.identifier} of {hour_text(c.batch_hour)}: {rows} rows in the file, {c.row_count} counted")
    return _result(_ACCOUNTED, wrong, len(conversions))


def _rejects(run: HourlyRun) -> dg.AssetCheckResult:
    wrong, looked_at = [], 0
    for hour, made in run.conversions.items():
        rows, rejects = sum(c.row_count for c in made), sum(c.reject_count for c in made)
        looked_at += rows + rejects
        if rejects > REJECTS_SHARE * (rows + rejects):
            wrong.append(f"{hour_text(hour)}: {rejects} of {rows + rejects} lines rejected; `wme rejects` lists them")
    return _result(_REJECTS, wrong, looked_at, warn=True)


def _known(run: HourlyRun) -> dg.AssetCheckResult:
    conversions = [c for made in run.conversions.values() for c in made]
    wrong = [f"{seen.path} in {seen.count:,} places, for example {seen.example}" for seen in drift_of(conversions)]
    return _result(_KNOWN, wrong, len(conversions), warn=True)


def _audited(run: HourlyRun) -> Iterator[dg.AssetCheckResult]:
    audits = run.warehouse.warehouse.audit(run.loaded)
    yield _result(
        _LOADED,
        [
            f"{hour_text(a.batch_hour)}: {a.row_count} rows, {a.expected_count} expected"
            for a in audits
            if a.row_count != a.expected_count
        ],
        len(audits),
    )
    yield _result(
        _UNIQUE,
        [f"{hour_text(a.batch_hour)}: {a.repeated_count} events stand twice" for a in audits if a.repeated_count],
        len(audits),
    )
    yield _result(
        _IN_HOUR,
        [f"{hour_text(a.batch_hour)}: {a.early_count} events before the hour" for a in audits if a.early_count],
        len(audits),
    )


@dg.asset_check(
    asset=_PUBLISHED,
    name="last_48_hours_covered",
    description="Since the first loaded hour, every mirrored project has each of the last 48 hours loaded, empty or absent. "
    "The service keeps two days: an hour that is missing longer is lost.",
)
def last_48_hours_covered(enterprise: EnterpriseResource, warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Name the hours of the last two days that are missing."""
    since = last_complete_hour(datetime.now(UTC)) - RETENTION
    wrong = [
        f"{row.project_id} namespace {row.namespace_id} {hour_text(row.batch_hour)}: {row.state}"
        # not of the published file, which may be older, or not be there
        for row in warehouse.warehouse.coverage(since=since, published=False)
        if (row.project_id, row.namespace_id) in set(enterprise.scope) and row.state not in COVERED
    ]
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(wrong[:20]) or None,
        metadata={"missing": len(wrong)},
    )


@dg.asset_check(
    # on the published file, because a check of the hours is skipped with them when one of them fails
    asset=_PUBLISHED,
    name="no_failed_hours",
    description="No hour sits failed. To mend one: read its sentence in the asset's partitions, remove the cause, and "
    "materialize the hour again; what was fetched is kept.",
)
def no_failed_hours(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
    """Count the hours whose last attempt failed; a quiet failure is the dangerous one."""
    # of the code location and not the module's own: Dagster keeps what it knows of partitions by their definition
    hours = context.op_execution_context.job_def.asset_layer.asset_graph.get(WAREHOUSE).partitions_def or HOURS
    failed = (
        context.instance.get_status_by_partition(WAREHOUSE, list(hours.get_partition_keys()[-24 * 62 :]), hours) or {}
    )
    keys = sorted(key for key, status in failed.items() if status is not None and status.value == "FAILED")
    return dg.AssetCheckResult(
        passed=not keys,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{len(keys)} hours failed: {', '.join(keys[:20])}" if keys else None,
        metadata={"failed": len(keys)},
    )


STANDING = [last_48_hours_covered, no_failed_hours]
