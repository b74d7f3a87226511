"""The report, a self-contained HTML page about the published file and the mirror's status.

Libraries for charts and templates are slow to import, so they are imported only when a page is written.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.report import status as statuses
from resources import files
from resources.errors import MirrorError
from resources.files import StrPath
from resources.formatting import counted, hour_text, listed, moment_text, size_text
from resources.lake import Layout
from resources.settings import Settings
from resources.warehouse import Warehouse
from resources.warehouse.read.coverage import Gap

#: Maximum numbers of sentences about gaps, other sentences, facts with the same name, and characters in a fact.
_GAPS, _SHOWN, _FACTS, _LONGEST = 10, 20, 5, 300
#: Maximum number of scopes and hour ranges in a line.
_NAMED = 5
#: Facts about the account, which the page omits because it can be shared.
_PRIVATE = frozenset({"tokens"})


class Line(NamedTuple):
    """Line in the list of problems. `is_gap` marks missing hours."""

    text: str
    is_gap: bool = False


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
    from markupsafe import Markup  # noqa: PLC0415

    from pipelines.report.page import content  # noqa: PLC0415

    began, moment = time.monotonic(), now or datetime.now(UTC)
    status = statuses.collect(settings, statuses.HOURS, moment)
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
    environment.filters |= {"cell": content.cell_text, "svg": Markup}
    environment.tests["link"] = lambda value: isinstance(value, content.Link)
    page = environment.get_template("page.html").render(
        headline=list(headline(status)),
        facts=list(_facts(status)),
        cards=cards,
        troubles=(shown := _shown(lines)),
        more=len(lines) - len(shown),
        moment=moment_text(moment),
    )
    path = Path(output or Layout(settings.data).report).absolute()
    encoded = page.encode("utf-8", "replace")
    files.write(path, encoded)
    return Report(
        path=path,
        size_bytes=len(encoded),
        attention=shown,
        attention_count=len(lines),
        picture_count=sum(card.picture is not None for card in cards),
        seconds=time.monotonic() - began,
    )


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


def _shown(lines: Sequence[Line]) -> list[str]:
    """Return the first lines, in the order of `wme status`."""
    shown, left = [], {True: _GAPS, False: _SHOWN}
    for line in lines:
        if left[line.is_gap]:
            left[line.is_gap] -= 1
            shown.append(line.text)
    return shown


def _facts(status: statuses.Status) -> Iterator[tuple[str, str]]:
    """Yield the facts from `wme status`. Values with the same name are combined, and long values are shortened."""
    values: dict[str, list[str]] = {}
    for name, value in status.facts:
        if name in _PRIVATE:
            continue
        values.setdefault(name, []).append(str(value))
    for name, those in values.items():
        text = listed(those, _FACTS)
        yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... (`wme status` shows all)"


def sentences(settings: Settings) -> list[str]:
    """Return all current sentences that make `wme status --check` fail."""
    return [line.text for line in attention(statuses.collect(settings, statuses.HOURS))]


def attention(status: statuses.Status) -> list[Line]:
    """Group the sentences from `wme status`. Each group appears at the position of its first sentence."""
    gaps = {gap.sentence: gap for gap in status.gaps}
    names = {place.name for place in status.places}
    groups: dict[Hashable, list[Any]] = {}
    for text in status.troubles:
        name, colon, rest = text.partition(": ")
        if (gap := gaps.get(text)) is not None:
            groups.setdefault((gap.state, gap.reason), []).append(gap)
        elif colon and name in names:
            groups.setdefault(rest, []).append(name)
        else:
            groups.setdefault((text,), []).append(text)
    found = []
    for key, members in groups.items():
        if isinstance(key, str):
            found.append(Line(f"{listed(members, _NAMED)}: {key}"))
        elif isinstance(members[0], str):
            found.append(Line(members[0]))
        else:
            found.extend(_of_gaps(members))
    return found


def _of_gaps(gaps: Iterable[Gap]) -> Iterable[Line]:
    """Merge gaps with the same state and reason if they share either the hours or the scopes."""
    by_hours: dict[tuple[Any, ...], list[Gap]] = {}
    for gap in gaps:
        by_hours.setdefault((gap.dataset, gap.first, gap.last), []).append(gap)
    by_places: dict[tuple[str, ...], list[Gap]] = {}
    for members in by_hours.values():
        by_places.setdefault(tuple(one.place for one in members), []).append(members[0])
    for places, members in by_places.items():
        if len(places) == len(members) == 1:
            yield Line(members[0].sentence, is_gap=True)
            continue
        spans = [hour_text(one.first) + (f" to {hour_text(one.last)}" if one.hour_count > 1 else "") for one in members]
        total = sum(one.hour_count for one in members)
        text = (
            f"{listed(list(places), _NAMED)} {listed(spans, _NAMED)} ({counted(total, 'hour')}): {members[0].state}. "
            f"{members[0].reason or ''}"
        )
        yield Line(text.strip(), is_gap=True)
