"""Timetable of a project's page changes, which is computed for any hour without replaying earlier hours.

An act is a group of page operations in quick succession. Each hour has a fixed number of time slots ("places"), and
each act in the hour occupies one place. The page families of a script are spread over the hours of the script's period,
so every hour has the same number of acts. A permutation that depends on the hour assigns the places. An act's time and
revision numbers are functions of its hour and place, so numbers increase with time and never repeat. A place is long
enough for all operations of an act, so no act continues into the next hour.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from resources.sandbox.world import scripts
from resources.sandbox.world.pages import Event, Family, Moment, Page, Revision, Title, Verb
from resources.sandbox.world.scripts import Script
from resources.sandbox.world.wire import mix, salt

#: First hour (2020-01-01T00 UTC) for revision numbers. With this epoch, the numbers fit into 32 bits.
EPOCH_HOUR = 438_288
HOUR = 3_600_000_000
_SECOND = 1_000_000
#: Maximum number of operations per act. Each operation gets a quarter of the act's time slot.
_OPERATIONS = 4
#: Number of revisions that a record refers to (current and previous).
_MENTIONED = 2
_FIRST_REVISION = 100_000_000
_FIRST_NEW_PAGE = 20_000_000
_FIRST_PAGE = 5_000
_PAGE_STEP = 37
#: Minimum number of time slots per hour. Even in small worlds, an act's operations happen within seconds.
_PLACES = 600
#: Each ordinary script's share of the edits in namespace 0, ordered by the number of pages per edit.
_BUSIEST, _BUSY, _USUAL = (1.0, 0.0, 0.0), (0.3, 0.7, 0.0), (0.3, 0.4, 0.3)
#: Preferred and maximum interval in hours between edits of a page in the `still` script.
_STILL_HOURS, _STILLEST_HOURS = 720, 8_760
_STILL_SHARE = 0.1
#: Ratio of the changes in other namespaces to the changes in namespace 0.
_SHARES = {6: 0.02, 10: 0.03, 14: 0.04}
#: Number of special scripts in other namespaces (wander, lazarus and born).
_LIVELY = 3
#: Number of page families that start each special script every hour: one per 1,000 changes, but at least two.
_SPECIAL_FAMILIES = 2
_SPECIAL_RATE = 1000
#: Divisor of the maximum number of ordinary edits. An hour can have up to 1/16 fewer edits than the maximum.
_VARIATION = 16
_OVERFILL = 1.03
#: Maximum number of changes per hour in a namespace that has some hours without changes.
_FEW = 2


@dataclass(frozen=True)
class Cast:
    """Page families that follow one script in one namespace."""

    namespace: int  # original namespace of the pages
    script: Script
    count: int  # number of families that start their cycle in the same hour
    varies: bool  # true if fewer than `count` families start in some hours
    first_place: int  # number of the first time slot for the cast's acts
    first_page: int  # number of the cast's first page

    @property
    def families(self) -> int:
        return self.count * self.script.period


class Names(Protocol):
    """Source of unique page titles. "Settled" pages have always existed, and "fresh" pages are created by an act."""

    def settled(self, number: int) -> str:
        """Return the title of the settled (initially existing) page with this number."""

    def fresh(self, number: int) -> str:
        """Return the title of the fresh (newly created) page with this number."""

    def settled_number(self, title: str) -> int | None:
        """Return the number of the settled (initially existing) page with this title, or None."""

    def fresh_number(self, title: str) -> int | None:
        """Return the number of the fresh (newly created) page with this title, or None."""


class Timetable:
    def __init__(
        self,
        seed: int,
        project: str,
        namespaces: tuple[int, ...],
        rate: int,
        titles: Names,
        articles: int | None = None,
    ) -> None:
        """Plan page changes at `rate` per hour, with about `articles` pages in namespace 0."""
        self.project = project
        self._titles = titles
        self._served = frozenset(namespaces)
        self._salt = salt("timetable", seed, project)
        self.casts = tuple(self._lay_out(rate, namespaces, articles))
        places = sum(cast.count * len(cast.script.acts) for cast in self.casts)
        self.places = max(places, _PLACES)
        self._width = HOUR / self.places
        step = int(self.places * 0.618_034)
        while math.gcd(step, self.places) != 1:
            step += 1
        self._step = step
        self._offset = lru_cache(maxsize=4096)(lambda hour: mix(self._salt ^ (hour * 2 + 1)) % self.places)

    def _lay_out(self, rate: int, namespaces: tuple[int, ...], articles: int | None) -> Iterator[Cast]:
        place = page = 0
        # also plan unserved namespaces, because the selected namespaces must not affect the history
        for namespace in sorted({0, *_SHARES, *namespaces}):
            for script, count, varies in _shares(namespace, rate, articles):
                if not count:
                    continue
                yield Cast(namespace, script, count, varies, place, page)
                place += count * len(script.acts)
                page += count * script.period * script.pages

    def _begins(self, cast: Cast, hour: int, index: int, within: int) -> tuple[int, int]:
        """Return the start (microseconds since 1970) and number of the act `index`, which takes place in `hour`."""
        number = cast.first_place + index * cast.count + within
        place = (number * self._step + self._offset(hour)) % self.places
        ordinal = ((hour - EPOCH_HOUR) * self.places + place) * _OPERATIONS
        jitter = 0.02 + 0.15 * (mix(ordinal ^ self._salt) & 0xFFFF) / 0x10000
        return hour * HOUR + int((place + jitter) * self._width), ordinal

    def _moment(self, start: int, ordinal: int, index: int, *, fresh: bool) -> Moment:
        number = ordinal + index
        at = start + int(index * self._width / _OPERATIONS)
        scatter = mix(number * 3 + self._salt)
        created = at - 90_000 - scatter % (3 * _SECOND)
        return Moment(
            at=at,
            gap=max(1, int(self._width * 0.02)),
            created=created,
            edited=created - (scatter >> 32) % (2 * _SECOND),
            ordinal=number,
            revision=_FIRST_REVISION + number,
            page=_FIRST_NEW_PAGE + number // _OPERATIONS,
            fresh=self._titles.fresh(number // _OPERATIONS) if fresh else "",
        )

    def _count(self, cast: Cast, slot: int) -> int:
        """Count the page families whose cycle starts in hours that equal `slot` modulo the period."""
        if not cast.varies:
            return cast.count
        # namespaces with few changes have hours without changes
        spread = cast.count if cast.count <= _FEW else cast.count // _VARIATION
        return cast.count - mix(self._salt + cast.first_place * 1009 + slot) % (spread + 1)

    def plays(self, cast: Cast, family: int) -> bool:
        """Return whether the page family exists. Valid numbers are in [0, `cast.families`)."""
        within, slot = divmod(family, cast.script.period)
        return within < self._count(cast, slot)

    def families(self, cast: Cast) -> Iterator[int]:
        for slot in range(cast.script.period):
            for within in range(self._count(cast, slot)):
                yield within * cast.script.period + slot

    def with_title(self, text: str) -> Iterator[tuple[Cast, int]]:
        """Yield the page families in which a page might have this title at some time in any namespace."""
        for variant in scripts.VARIANTS:
            ending = variant.removeprefix("{}")
            if not text.endswith(ending):
                continue
            home = text.removesuffix(ending)
            number = self._titles.settled_number(home)
            if number is not None and (found := self._at_home(number)) is not None:
                yield found
            number = self._titles.fresh_number(home)
            if number is not None and (found := self._maker(number)) is not None:
                yield found

    def _at_home(self, page: int) -> tuple[Cast, int] | None:
        """Return the page family that contains a settled page, or None if the family does not exist."""
        for cast in self.casts:
            pages = cast.script.pages
            if cast.first_page <= page < cast.first_page + cast.families * pages:
                family = (page - cast.first_page) // pages
                return (cast, family) if self.plays(cast, family) else None
        return None

    def _maker(self, number: int) -> tuple[Cast, int] | None:
        """Return the page family that uses the time slot `number`, or None. Time slots are counted from the epoch."""
        hour, place = number // self.places + EPOCH_HOUR, number % self.places
        act = (place - self._offset(hour)) * pow(self._step, -1, self.places) % self.places
        for cast in self.casts:
            index, within = divmod(act - cast.first_place, cast.count)
            if act >= cast.first_place and index < len(cast.script.acts):
                slot = (hour - cast.script.acts[index].hour) % cast.script.period
                family = within * cast.script.period + slot
                return (cast, family) if self.plays(cast, family) else None
        return None

    def busy(self, cast: Cast, first: int, last: int) -> Iterator[int]:
        """Yield each page family with an act between the hours `first` and `last`, inclusive."""
        period = cast.script.period
        slots = {
            (hour - act.hour) % period
            for act in cast.script.acts
            for hour in range(first, min(last, first + period - 1) + 1)
        }
        for slot in sorted(slots):
            for within in range(self._count(cast, slot)):
                yield within * period + slot

    def play(self, cast: Cast, family: int, end: int, since: int | None = None) -> tuple[Family, list[Event]]:
        """Return a page family's state before `end` and the family's events from `since` to `end`."""
        script = cast.script
        within, slot = divmod(family, script.period)
        table = Family(self.project, cast.namespace, self._served, scripts.VARIANTS, self._at_first(cast, family))
        events: list[Event] = []
        cycle = (end // HOUR - slot) // script.period
        due = [
            (*self._begins(cast, hour, index, within), act.operations)
            for past in (cycle - 2, cycle - 1, cycle)
            for index, act in enumerate(script.acts)
            if (hour := past * script.period + slot + act.hour) * HOUR < end
        ]
        due.sort()
        if script.only_edits:
            # records refer only to the last two revisions
            earlier = bisect_left(due, (end if since is None else since,))
            del due[: max(0, earlier - _MENTIONED)]
        for begin, ordinal, operations in due:
            for index, operation in enumerate(operations):
                moment = self._moment(begin, ordinal, index, fresh=operation.fresh)
                if moment.at >= end:
                    return table, events
                published = table.apply(operation, moment)
                if since is not None and moment.at >= since:
                    events += published
        return table, events

    def _at_first(self, cast: Cast, family: int) -> dict[int, Page]:
        """Return the page family's pages at the start of a cycle, without the effects of earlier cycles."""
        pages = {}
        for number in range(cast.script.pages):
            index = cast.first_page + family * cast.script.pages + number
            home = Title(cast.namespace, self._titles.settled(index))
            born = 1_000_000_000 + mix(self._salt ^ index) % 550_000_000  # from September 2001 to February 2019
            pages[number] = Page(
                identifier=_FIRST_PAGE + _PAGE_STEP * index,
                home=home,
                title=home,
                created=born * _SECOND,
                revision=Revision(1_000 + index, born * _SECOND, None),
            )
        return pages

    def hour(self, hour: int, until: int) -> list[Event]:
        """Return the events published in an hour (counted from 1970) in publication order.

        Events at or after `until` (microseconds since 1970) are excluded.
        """
        end = min(until, (hour + 1) * HOUR)
        events: list[Event] = []
        for cast in self.casts:
            for family in self.busy(cast, hour, hour):
                if self._acts(cast, family, hour, end):
                    events += self.play(cast, family, end, hour * HOUR)[1]
        events.sort(key=lambda event: (event.published, event.ordinal, event.title.text))
        return events

    def _acts(self, cast: Cast, family: int, hour: int, end: int) -> bool:
        """Return whether the page family has an act that starts in the hour and before `end`."""
        within, slot = divmod(family, cast.script.period)
        return any(
            (hour - act.hour - slot) % cast.script.period == 0 and self._begins(cast, hour, index, within)[0] < end
            for index, act in enumerate(cast.script.acts)
        )


def settled_index(page: int) -> int | None:
    """Convert a page id to a settled page's number, which determines the title. Return None for other pages."""
    index, rest = divmod(page - _FIRST_PAGE, _PAGE_STEP)
    return index if not rest and index >= 0 and page < _FIRST_NEW_PAGE else None


def usual_articles(rate: int) -> int:
    """Return the approximate default number of pages in namespace 0 for `rate` changes per hour."""
    settled, ordinary = _settled(rate)
    return settled + round(ordinary * _pages_per_edit(_USUAL))


def _shares(namespace: int, rate: int, articles: int | None) -> Iterator[tuple[Script, int, bool]]:
    """Yield a namespace's scripts, each with its number of page families per hour and whether this number varies."""
    if namespace == 0:
        for script in scripts.SPECIAL:
            yield script, _special_families(rate), False
        settled, ordinary = _settled(rate)
        mixture: tuple[float, ...] = _USUAL
        still = 0
        if articles is not None:
            usual = ordinary * _pages_per_edit(_USUAL)
            still = max(0, round(articles - settled - usual))
            mixture = _mixture((articles - settled) / ordinary) if ordinary and not still else _USUAL
        for script, share in zip(scripts.ORDINARY, mixture, strict=True):
            yield script, round(ordinary * share / len(script.acts)), True
        if still:
            families = min(round(still / _STILL_HOURS), round(ordinary * _STILL_SHARE))
            families = max(1, families, math.ceil(still / _STILLEST_HOURS))
            yield scripts.still(math.ceil(still / families)), families, False
        return
    changes = round(rate * _SHARES.get(namespace, 0.01))
    lively = scripts.SPECIAL[:_LIVELY] if changes >= 3 * _SPECIAL_RATE // 50 else ()
    for script in lively:
        changes -= _told(script)
        yield script, 1, False
    yield scripts.NAMED["warm"], max(1, changes), True


def _special_families(rate: int) -> int:
    return max(_SPECIAL_FAMILIES, rate // _SPECIAL_RATE)


def _settled(rate: int) -> tuple[int, float]:
    """Return the number of pages in special scripts and the number of ordinary edits per hour in namespace 0."""
    families = _special_families(rate)
    pages = sum(families * script.period * script.pages for script in scripts.SPECIAL)
    special = families * sum(_told(script) for script in scripts.SPECIAL)
    return pages, max(0.0, rate - special) * _OVERFILL


def _pages_per_edit(mixture: tuple[float, ...]) -> float:
    """Return the number of pages that together receive one edit per hour."""
    return sum(
        share * script.period * script.pages / len(script.acts)
        for script, share in zip(scripts.ORDINARY, mixture, strict=True)
    )


def _mixture(pages: float) -> tuple[float, ...]:
    """Return each ordinary script's share of the edits if `pages` pages together receive one edit per hour."""
    for fewer, more in ((_BUSIEST, _BUSY), (_BUSY, _USUAL)):
        low, high = _pages_per_edit(fewer), _pages_per_edit(more)
        if pages <= high:
            part = max(0.0, (pages - low) / (high - low))
            return tuple(one + part * (other - one) for one, other in zip(fewer, more, strict=True))
    return _USUAL


def _told(script: Script) -> int:
    """Return the approximate number of events per cycle. A move has two events; other operations have one event."""
    return sum(2 if operation.verb is Verb.MOVE else 1 for act in script.acts for operation in act.operations)
