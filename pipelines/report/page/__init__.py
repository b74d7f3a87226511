"""The report, a self-contained HTML page about the published file and the mirror's status.

Libraries for charts and templates are slow to import, so they are imported only when a page is written.
"""

import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pipelines.report import status as statuses
from resources import data_folder, files
from resources.errors import MirrorError
from resources.files import StrPath
from resources.formatting import hour_text, listed, moment_text, size_text, value_text
from resources.settings import Settings
from resources.warehouse import Warehouse

#: Maximum numbers of sentences, places in a sentence, facts with the same name, and characters in a fact.
_SHOWN, _NAMED, _FACTS, _LONGEST = 30, 5, 5, 300


class Report(NamedTuple):
    """Result of writing a page: path, size, lines that need attention, number of charts, and duration."""

    path: Path
    size_bytes: int
    attention: Sequence[str]
    attention_count: int
    picture_count: int
    seconds: float


def write(settings: Settings, output: StrPath | None = None, now: datetime | None = None) -> Report:
    """Write a data folder's page to `output` or `report.html`. Raises MirrorError if nothing has been published."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    from pipelines.report.page import content  # noqa: PLC0415

    began, moment = time.monotonic(), now or datetime.now(UTC)
    status = statuses.collect(settings, now=moment)
    warehouse = Warehouse(settings.data)
    build_bytes = warehouse.build_path.stat().st_size if warehouse.build_path.exists() else 0
    cards = []
    try:
        with warehouse.opened(published=True) as published:
            cards = list(content.cards(published, status, build_bytes))
    except MirrorError as error:
        if not warehouse.published_path.exists():
            raise
        if str(error) not in status.troubles:
            status.troubles.append(str(error))
    lines = attention(status)
    environment = Environment(
        loader=PackageLoader("pipelines.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = value_text
    page = environment.get_template("page.html").render(
        headline=list(headline(status)),
        facts=list(_facts(status)),
        cards=cards,
        troubles=(shown := lines[:_SHOWN]),
        more=len(lines) - len(shown),
        moment=moment_text(moment),
    )
    path = Path(output or data_folder.report(settings.data)).absolute()
    encoded = page.encode("utf-8", "replace")
    files.write(path, encoded)
    picture_count = sum(card.picture is not None for card in cards)
    return Report(path, len(encoded), shown, len(lines), picture_count, time.monotonic() - began)


def headline(status: statuses.Status) -> Iterator[tuple[str, str]]:
    """Yield the names and values of four figures that show whether the mirror is up to date and can keep running."""
    newest = sorted(place.newest_hour for place in status.places if place.newest_hour is not None)
    text = "none is loaded" if not newest else f"{hour_text(newest[-1])} UTC"
    if newest and newest[0] < newest[-1]:
        text += f" (furthest behind: {hour_text(newest[0])})"
    yield "Newest hour", text
    at = status.figures.get("published_at")
    yield "Published", f"{moment_text(datetime.fromisoformat(at))} UTC" if at else "nothing yet"
    stream = status.stream
    text = "not kept"
    if stream is not None:
        text = f"{'read' if stream['is_running'] else 'not being read'}, {stream['lag_seconds']:,.0f} s behind"
    yield "Stream", text
    free = status.figures.get("free_bytes")
    yield "Disk free", "unknown" if free is None else size_text(free)


def _facts(status: statuses.Status) -> Iterator[tuple[str, str]]:
    """Yield the facts from `wme status`. Values with the same name are combined, and long values are shortened."""
    values: dict[str, list[str]] = {}
    for name, value in status.facts:
        if name != "tokens":  # the account is private, and the page can be shared
            values.setdefault(name, []).append(str(value))
    for name, those in values.items():
        text = listed(those, _FACTS)
        yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... (`wme status` shows all)"


def attention(status: statuses.Status) -> list[str]:
    """Return the sentences from `wme status`. Sentences that differ only in the place at their beginning are merged."""
    groups: dict[str, list[str]] = {}
    for text in status.troubles:
        place, rest = re.findall(r"(?s)^(.*? namespace \d+(?=[ :])|)(.*)", text)[0]
        groups.setdefault(rest, []).append(place)
    return [listed(places, _NAMED) + rest for rest, places in groups.items()]
