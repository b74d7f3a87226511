"""How the mirror stands, collected from its own files; no network.

Belongs here: what `wme status` tells. Does not belong here: drawing it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from assets.describe import drift_of
from assets.partitions import hour_text, last_complete_hour
from pipelines.definitions import build_enterprise
from pipelines.terminal import text, tokens_text
from resources.engine.progress import amount
from resources.enterprise.errors import EnterpriseError
from resources.lake import Archive, Layout, find_conversion
from resources.lake.origin import OriginError, origin_of
from resources.tables import HourState
from resources.warehouse import NotPublishedError, QueryError, Warehouse

if TYPE_CHECKING:
    from pipelines.settings import Settings

#: States in which nothing more is to come.
_COVERED = {HourState.LOADED, HourState.EMPTY, HourState.ABSENT}
#: An hour is published minutes after its end; one that began longer ago and is not here needs attention.
_LATE = timedelta(hours=4)
#: Loaded hours that are looked at for fields without a column, and how many of these are named.
_DRIFT_HOURS = 3
_DRIFT_SHOWN = 5
#: Characters of an example.
_SHOWN = 60


@dataclass
class Status:
    """What there is to tell: facts by name, hours by project and state, and what needs attention."""

    facts: list[tuple[str, Any]] = field(default_factory=list)
    states: tuple[str, ...] = tuple(HourState)
    coverage: list[tuple[Any, ...]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def collect(settings: Settings, hours: int, now: datetime | None = None) -> Status:
    """The status of a data folder over its last `hours` hours (before `now`, by default this moment)."""
    report = Status()
    origin = origin_of(settings.data)
    report.facts.append(("service", origin or ("sandbox (not started yet)" if settings.sandbox else settings.base_url)))
    report.facts.append(
        ("mirrored", f"{', '.join(settings.projects)}; namespaces {', '.join(map(str, settings.namespaces))}")
    )
    report.facts.append(("data", settings.data.absolute()))
    if settings.data.exists():
        _tell_disk(report, settings)
    if origin is not None and not settings.sandbox:
        _tell_tokens(report, settings)
    warehouse = Warehouse(settings.data)
    try:
        _tell_published(report, warehouse)
        _tell_drift(report, warehouse, settings)
        _tell_coverage(report, warehouse, settings, hours, now or datetime.now(UTC))
    except (NotPublishedError, QueryError) as error:
        report.troubles.append(str(error))
    return report


def _tell_disk(report: Status, settings: Settings) -> None:
    free = shutil.disk_usage(settings.data).free
    report.facts.append(("disk free", amount(free, "B")))
    if free < settings.min_free_gb * 1e9:
        report.troubles.append(
            f"{amount(free, 'B')} of disk are free, less than the {settings.min_free_gb:g} GB that a run leaves (WME_MIN_FREE_GB): "
            "the next run will refuse to start."
        )


def _tell_tokens(report: Status, settings: Settings) -> None:
    try:
        with build_enterprise(settings).client() as client:
            report.facts.append(("tokens", tokens_text(client.token_status())))
    except (OriginError, EnterpriseError) as error:
        report.troubles.append(str(error))


def _tell_published(report: Status, warehouse: Warehouse) -> None:
    about = dict(warehouse.sql("SELECT name, value FROM about").rows)
    counts = warehouse.sql(
        "SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM article_changes), (SELECT count(*) FROM rejects), "
        "(SELECT count(*) FROM loads WHERE applied_at IS NULL)"
    ).rows[0]
    size = warehouse.published_path.stat().st_size
    report.facts.append(
        ("published", f"{warehouse.published_path}, {amount(size, 'B')}, {about.get('published_at', '')}")
    )
    report.facts.append(("articles", f"{counts[0]:,}"))
    report.facts.append(("changes", f"{counts[1]:,}"))
    report.facts.append(("rejects", f"{counts[2]:,}"))
    if counts[3]:
        report.troubles.append(f"{counts[3]} loaded files are not in `articles` yet; `wme run` takes them in.")
    if about.get("missing_lake_file_count", "0") != "0":
        report.troubles.append(
            f"{about['missing_lake_file_count']} lake files are gone and their bodies are left out of `article_bodies`. "
            "Materialize lake/article_changes of their hours, then publish: the archive is enough for that."
        )


def _tell_drift(report: Status, warehouse: Warehouse, settings: Settings) -> None:
    """Fields without a column are no trouble, since they are kept; but somebody may want to know them."""
    rows = warehouse.sql(
        "SELECT batch_hour, project_id, namespace_id, identifier, version FROM loads "  # noqa: S608  a number
        f"WHERE batch_hour IN (SELECT DISTINCT batch_hour FROM loads ORDER BY ALL DESC LIMIT {_DRIFT_HOURS})"
    ).rows
    layout = Layout(settings.data)
    conversions = []
    for hour, project, namespace, identifier, version in rows:
        path = layout.batch_archive(hour, identifier, version)
        archive = Archive(path, identifier, version, hour, project, namespace)
        if (conversion := find_conversion(archive, layout, frozenset(settings.bodies))) is not None:
            conversions.append(conversion)
    drift = drift_of(conversions)
    if not drift:
        return
    told = [
        f"{text(d.path)} in {d.count:,} places, for example {text(d.example)[:_SHOWN]}" for d in drift[:_DRIFT_SHOWN]
    ]
    more = f"; {len(drift) - _DRIFT_SHOWN:,} more" if len(drift) > _DRIFT_SHOWN else ""
    hours = len({conversion.batch_hour for conversion in conversions})
    report.facts.append(("unknown fields", f"{'; '.join(told)}{more} (newest {hours} hours; kept in `extra`)"))


def _tell_coverage(report: Status, warehouse: Warehouse, settings: Settings, hours: int, now: datetime) -> None:
    newest_complete = last_complete_hour(now)
    since = newest_complete - timedelta(hours=hours - 1)
    by_place: dict[tuple[str, int], Counter[str]] = {}
    newest: dict[tuple[str, int], datetime] = {}
    for row in warehouse.coverage():
        place = (row.project_id, row.namespace_id)
        covered = row.state in _COVERED
        if covered:
            newest[place] = row.batch_hour
        if row.batch_hour < since:
            continue
        by_place.setdefault(place, Counter())[row.state] += 1
        if not covered and not (row.state == HourState.NOT_YET and now - row.batch_hour < _LATE):
            where = f"{row.project_id} namespace {row.namespace_id} {hour_text(row.batch_hour)}"
            report.troubles.append(f"{where}: {row.state}. {row.reason or ''}".strip())
    places = sorted({(p, n) for p in settings.projects for n in settings.namespaces} | set(by_place))
    report.coverage = [
        (*place, *(by_place.get(place, Counter())[state] for state in HourState), newest.get(place)) for place in places
    ]
    for project, namespace in sorted({(p, n) for p in settings.projects for n in settings.namespaces}):
        last = newest.get((project, namespace))
        if last is None:
            report.troubles.insert(0, f"{project} namespace {namespace}: no hour of it was brought in so far.")
        elif now - last > _LATE:
            behind = int((newest_complete - last) / timedelta(hours=1))
            report.troubles.insert(
                0,
                f"{project} namespace {namespace}: the newest hour is {hour_text(last)}, {behind} hours behind. The service keeps "
                f"two days; `wme run --hours {min(behind, 48)}` brings in what is still there.",
            )
