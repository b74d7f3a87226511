"""The list of what needs attention: sentences that differ only in the scope or the hours are one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.report import status as statuses
from resources.formatting import counted, hour_text, listed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from pipelines.report.status import Status
    from resources.settings import Settings
    from resources.warehouse.read.coverage import Gap

#: Places and spans of hours that a line names.
_NAMED = 5


class Line(NamedTuple):
    """A line of the list, and whether it is about hours that are not there."""

    text: str
    is_gap: bool = False


def sentences(settings: Settings) -> list[str]:
    """Everything that `wme status --check` fails for, of a data folder at this moment."""
    return [line.text for line in lines(statuses.collect(settings, statuses.HOURS))]


def lines(status: Status) -> list[Line]:
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
