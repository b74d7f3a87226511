"""The report: one HTML page that needs nothing but itself, of the published file and the status.

What draws and fills it takes a while to import: only who makes a page does.
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

#: Sentences about gaps that are shown, and about all else; facts of one name; characters of a fact.
_GAPS, _SHOWN, _FACTS, _LONGEST = 10, 20, 5, 300
#: Places and spans of hours that a line names.
_NAMED = 5
#: Facts about the account, which a page that may be mailed does not have.
_PRIVATE = frozenset({"tokens"})


class Line(NamedTuple):
    """A line of the list, and whether it is about hours that are not there."""

    text: str
    is_gap: bool = False


class Report(NamedTuple):
    """A page that was written: its path and size, the lines of attention, its pictures, and the seconds it took."""

    path: Path
    size_bytes: int
    attention: Sequence[str]
    attention_count: int
    picture_count: int
    seconds: float


def write(settings: Settings, output: StrPath | None = None, now: datetime | None = None) -> Report:
    """Write the page of a data folder to `output` (default: `report.html` in the folder), complete or not at all.

    Raises:
        MirrorError: Nothing is published yet; nothing was written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    from pipelines.report.page import content  # noqa: PLC0415

    began, moment = time.monotonic(), now or datetime.now(UTC)
    status = statuses.collect(settings, statuses.HOURS, moment)
    warehouse = Warehouse(settings.data)
    build_bytes = warehouse.build_path.stat().st_size if warehouse.build_path.exists() else 0
    cards = []
    try:
        with warehouse.open_published() as published:
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
    """The four figures that say how fresh the mirror is and whether it can go on, by name."""
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
        text = f"{'read' if stream['is_running'] else 'not read now'}, {stream['lag_seconds']:,.0f} s behind"
    yield "Stream", text
    free = status.figures.get("free_bytes")
    yield "Disk free", "unknown" if free is None else size_text(free)


def _shown(lines: Sequence[Line]) -> list[str]:
    """The first lines in the order of `wme status`, where the command that closes gaps follows them."""
    shown, left = [], {True: _GAPS, False: _SHOWN}
    for line in lines:
        if left[line.is_gap]:
            left[line.is_gap] -= 1
            shown.append(line.text)
    return shown


def _facts(status: statuses.Status) -> Iterator[tuple[str, str]]:
    """The facts of `wme status`, each name with all it says, as far as there is room."""
    values: dict[str, list[str]] = {}
    for name, value in status.facts:
        if name in _PRIVATE:
            continue
        values.setdefault(name, []).append(str(value))
    for name, those in values.items():
        text = listed(those, _FACTS)
        yield name, text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... (`wme status` shows all)"


def sentences(settings: Settings) -> list[str]:
    """Everything that `wme status --check` fails for, of a data folder at this moment."""
    return [line.text for line in attention(statuses.collect(settings, statuses.HOURS))]


def attention(status: statuses.Status) -> list[Line]:
    """The sentences of `wme status`, grouped, each group where its first sentence is."""
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
    """Lines of gaps of one state and reason: one for the same hours of several scopes, or several hours of one."""
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
