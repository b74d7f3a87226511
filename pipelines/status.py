"""How the mirror stands, collected from its own files; no network.

Belongs here: what `wme status` tells. Does not belong here: drawing it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from assets.partitions import last_complete_hour
from pipelines.definitions import build_enterprise
from pipelines.terminal import tokens_text
from resources.engine.progress import amount
from resources.lake.origin import origin_of
from resources.tables import HourState
from resources.warehouse import NotPublishedError, Warehouse

if TYPE_CHECKING:
    from pipelines.settings import Settings

#: States that need no attention.
_GOOD = {HourState.LOADED, HourState.EMPTY, HourState.ABSENT}


@dataclass
class Status:
    """What there is to tell: facts by name, hours by project and state, and what needs attention."""

    facts: list[tuple[str, Any]] = field(default_factory=list)
    states: tuple[str, ...] = tuple(HourState)
    coverage: list[tuple[Any, ...]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def collect(settings: Settings, hours: int) -> Status:
    """The status of a data folder over its last `hours` hours."""
    report = Status()
    origin = origin_of(settings.data)
    report.facts.append(("service", origin or ("sandbox (not started yet)" if settings.sandbox else settings.base_url)))
    report.facts.append(
        ("mirrored", f"{', '.join(settings.projects)}; namespaces {', '.join(map(str, settings.namespaces))}")
    )
    report.facts.append(("data", settings.data.absolute()))
    if settings.data.exists():
        report.facts.append(("disk free", amount(shutil.disk_usage(settings.data).free, "B")))
    if origin is not None and not settings.sandbox:
        with build_enterprise(settings).client() as client:
            report.facts.append(("tokens", tokens_text(client.token_status())))
    warehouse = Warehouse(settings.data)
    try:
        _tell_published(report, warehouse, hours)
    except NotPublishedError as error:
        report.troubles.append(str(error))
    return report


def _tell_published(report: Status, warehouse: Warehouse, hours: int) -> None:
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
    since = last_complete_hour(datetime.now(UTC)) - timedelta(hours=hours - 1)
    by_place: dict[tuple[str, int], Counter[str]] = {}
    for row in warehouse.coverage(since=since):
        by_place.setdefault((row.project_id, row.namespace_id), Counter())[row.state] += 1
        if row.state not in _GOOD:
            report.troubles.append(
                f"{row.project_id} namespace {row.namespace_id} {row.batch_hour:%Y-%m-%d %H:00}: {row.state}. {row.reason or ''}".strip()
            )
    report.coverage = [(*place, *(found[state] for state in HourState)) for place, found in sorted(by_place.items())]
    report.troubles = report.troubles[:20]
