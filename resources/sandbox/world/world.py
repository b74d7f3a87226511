"""Contents and events of all the sandbox's wikis at any point in time, derived from a seed.

The world has no current time. Every query specifies a time, and results do not depend on earlier queries.

`truth` reads the page table (`pages`), and hourly batches contain the events that changed the page table. `truth` and
the batches are not derived from each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from resources.sandbox.settings import Settings
from resources.sandbox.world import entities, reference
from resources.sandbox.world.articles import Writer
from resources.sandbox.world.census import Census, Entry
from resources.sandbox.world.entities import EntityWriter
from resources.sandbox.world.pages import Event
from resources.sandbox.world.schedule import HOUR, Timetable, usual_articles
from resources.sandbox.world.text.bodies import Corpus, Library
from resources.sandbox.world.text.words import Titles, lexicon_of
from resources.sandbox.world.wire import salt

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Default maximum number of articles per project. A first run should take seconds.
_ARTICLES = 5_000
#: Minutes from the end of an hour to the earliest start of a project's export, and length of the start window.
_EXPORT_FROM, _EXPORT_SPAN = 2, 5
_MINUTE = 60_000_000
_EXPORT_SECONDS = 55
#: Minimum delays of the batch listing after the end of the hour and after the start of the last export.
_LISTED_AT_LEAST = timedelta(minutes=4)
_LISTED_AFTER = timedelta(seconds=80)
#: Minutes from the full hour to the earliest start of a snapshot export, and length of the start window.
_SNAPSHOT_FROM, _SNAPSHOT_SPAN = 20, 20
_SNAPSHOT_SECONDS = 5_400


@cache
def _titles(language: str) -> Titles:
    return Titles(lexicon_of(language))


@dataclass(frozen=True)
class _Wiki:
    timetable: Timetable
    writer: Writer | EntityWriter


class World:
    """Thread-safe collection of all wikis in a sandbox. Wikis are created on first use."""

    def __init__(self, settings: Settings) -> None:
        """Check the projects and namespaces in `settings`. Unknown projects or namespaces raise ValueError."""
        self._settings = settings
        self._known = {name: reference.project(name) for name in settings.projects}
        unknown = set(settings.namespaces) - set(reference.NAMESPACES)
        if unknown:
            raise ValueError(f"The service has only the namespaces 0, 6, 10 and 14, not {sorted(unknown)}.")
        self._namespaces = dict.fromkeys(settings.projects, settings.namespaces)
        if settings.entities:
            self._namespaces[entities.PROJECT] = entities.NAMESPACES
        self._wikis: dict[str, _Wiki] = {}
        self._corpus: Corpus | None = None
        self._guard = threading.Lock()

    codes = staticmethod(reference.codes)
    languages = staticmethod(reference.languages)
    projects = staticmethod(reference.projects)
    namespaces = staticmethod(reference.namespaces)

    @property
    def wikis(self) -> tuple[str, ...]:
        """Return the names of all projects with pages in this world, including Wikidata."""
        return tuple(self._namespaces)

    def events(self, project: str, start: datetime, end: datetime) -> Iterator[Event]:
        """Yield the project's events that were published in [start, end), in publication order.

        The events include all event types, even visibility changes, in the served namespaces.
        """
        first, last = micros(start), micros(end)
        timetable, served = self._wiki(project).timetable, self._namespaces[project]
        for hour in range(first // HOUR, -(-last // HOUR)):
            for event in timetable.hour(hour, last):
                if first <= event.published < last and event.title.namespace in served:
                    yield event

    def record(self, event: Event) -> dict[str, Any]:
        return self._wiki(event.project).writer.record(event)

    def pages_at(
        self, project: str, namespace: int, moment: datetime, since: datetime | None = None
    ) -> Iterator[Event]:
        """Yield a namespace's articles that are live after all events published before `moment`.

        Each article is represented by its last `update` event, with the page's state and title at `moment`. If `since`
        is given, only articles whose last `update` was published at or after `since` are included.
        """
        timetable = self._wiki(project).timetable
        if namespace not in self._namespaces[project]:
            raise ValueError(
                f"This sandbox has no articles in namespace {namespace}, only in {self._namespaces[project]}."
            )
        end, begin = micros(moment), None if since is None else micros(since)
        for cast in timetable.casts:
            if namespace != cast.namespace and namespace not in cast.script.namespaces:
                continue
            if begin is None:
                families = timetable.families(cast)
            else:
                families = timetable.busy(cast, begin // HOUR, (end - 1) // HOUR)
            for family in families:
                for event in timetable.play(cast, family, end)[0].live(namespace):
                    if begin is None or event.published >= begin:
                        yield event

    def truth(
        self, project: str, namespace: int, moment: datetime, since: datetime | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the complete records of live articles from the page table. The arguments are those of `pages_at`."""
        writer = self._wiki(project).writer
        for event in self.pages_at(project, namespace, moment, since):
            yield writer.record(event)

    def article(self, project: str, name: str, hour: datetime) -> dict[str, Any] | None:
        """Return the article's record at the start of the hour's export, or None if the article does not exist."""
        wiki = self._wiki(project)
        title = wiki.writer.title(name)
        if title.namespace not in self._namespaces[project]:
            return None
        moment = micros(self.export_started_at(project, hour))
        for cast, family in wiki.timetable.with_title(title.text):
            for event in wiki.timetable.play(cast, family, moment)[0].live(title.namespace):
                if event.title == title:
                    return wiki.writer.record(event)
        return None

    def entity(self, identifier: str, hour: datetime) -> dict[str, Any] | None:
        """Return an entity's record at the start of the hour's export, or None if the entity is missing or merged."""
        return self.article(entities.PROJECT, identifier, hour) if self.entity_identifiers() else None

    def export_started_at(self, project: str, hour: datetime) -> datetime:
        """Return the start time of the project's export for an hour. The exported batches end at this time.

        The export starts a few minutes after the end of the hour, at the same time for all namespaces. If batches do
        not overlap, the export starts at the end of the hour.
        """
        if not self._settings.overlap:
            return hour + timedelta(hours=1)
        return moment_of(self._export(project, hour))

    def hour_ready_at(self, hour: datetime) -> datetime:
        """Return the time when the hour's batch listing appears, which is after all exports."""
        last = max(moment_of(self._export(project, hour)) for project in self._namespaces)
        return max(hour + timedelta(hours=1) + _LISTED_AT_LEAST, last + _LISTED_AFTER).replace(microsecond=0)

    def hour_events(self, project: str, hour: datetime) -> Iterator[Event]:
        """Yield the events in the project's batches for an hour, which exclude visibility changes."""
        for event in self.events(project, hour, self.export_started_at(project, hour)):
            if event.type != "visibility-change":
                yield event

    def line(self, event: Event) -> bytes:
        return self._wiki(event.project).writer.line(event)

    def key(self, event: Event) -> str:
        return f"/{event.project}/{self._wiki(event.project).writer.name(event.title)}"

    def export_ended_at(self, identifier: str, hour: datetime) -> int:
        """Return the time when a batch export ends, in nanoseconds since 1970."""
        project, _ = self.parts(identifier)
        took = salt("export", self._settings.seed, identifier, micros(hour)) % (_EXPORT_SECONDS * 10**9)
        return self._export(project, hour) * 1_000 + 5 * 10**9 + took

    def _export(self, project: str, hour: datetime) -> int:
        """Return the start time of a project's export for an hour, in microseconds since 1970."""
        span = salt("export", self._settings.seed, project, micros(hour)) % (_EXPORT_SPAN * _MINUTE)
        return micros(hour) + HOUR + _EXPORT_FROM * _MINUTE + span

    def snapshot_identifiers(self) -> list[str]:
        return [f"{p}_namespace_{n}" for p in self._settings.projects for n in self._settings.namespaces]

    def entity_identifiers(self) -> list[str]:
        return [f"{entities.PROJECT}_namespace_{n}" for n in self._namespaces.get(entities.PROJECT, ())]

    def snapshot_times(self, identifier: str, day: datetime) -> tuple[datetime, datetime]:
        """Return the start and end of a day's snapshot export. All namespaces of a project have the same start."""
        midnight = micros(day.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
        project, _ = self.parts(identifier)
        draw = salt("snapshot", self._settings.seed, project, midnight)
        started = (
            midnight
            + self._settings.snapshot_hour * HOUR
            + _SNAPSHOT_FROM * _MINUTE
            + draw % (_SNAPSHOT_SPAN * _MINUTE)
        )
        took = salt("snapshot", self._settings.seed, identifier, midnight) % (_SNAPSHOT_SECONDS * 1_000_000)
        return moment_of(started), moment_of(started + 5 * _MINUTE + took)

    def snapshot_entries(self, identifier: str, started: datetime, serial: int = 0) -> Iterable[Entry]:
        """Return the entries of a snapshot export. The `live` entries are the pages that `pages_at` yields."""
        project, namespace = self.parts(identifier)
        return Census(self._wiki(project).timetable, namespace, micros(started), serial)

    def parts(self, identifier: str) -> tuple[str, int]:
        """Split a snapshot identifier into project and namespace. An unknown identifier raises ValueError."""
        there = [*self.snapshot_identifiers(), *self.entity_identifiers()]
        if identifier not in there:
            raise ValueError(f"This sandbox has no snapshot {identifier!r}; the snapshots are {', '.join(there)}.")
        project, _, namespace = identifier.rpartition("_namespace_")
        return project, int(namespace)

    def language(self, project: str) -> str:
        return "en" if project == entities.PROJECT else self._known[project].language

    def _wiki(self, project: str) -> _Wiki:
        with self._guard:
            if project not in self._wikis:
                self._wikis[project] = self._make(project)
            return self._wikis[project]

    def _make(self, project: str) -> _Wiki:
        settings = self._settings
        if project == entities.PROJECT and settings.entities:
            timetable: Timetable = entities.EntityTimetable(settings.seed, settings.entities)
            return _Wiki(timetable, EntityWriter(settings.seed, _titles("en"), settings.body_bytes, self._sitelinks))
        if project not in self._known:
            raise ValueError(f"This sandbox has no articles for {project!r}, only for {', '.join(self._known)}.")
        known = self._known[project]
        lexicon = lexicon_of(known.language)
        if settings.corpus is not None and self._corpus is None:
            self._corpus = Corpus(settings.corpus)
        texts = self._corpus or Library(known.language, settings.seed, settings.body_bytes)
        articles, rate = settings.articles, settings.changes_per_hour
        if articles is None and usual_articles(rate) > _ARTICLES:
            articles = _ARTICLES
        timetable = Timetable(settings.seed, project, settings.namespaces, rate, _titles(known.language), articles)
        direction = reference.LANGUAGES[known.language].direction
        return _Wiki(timetable, Writer(settings.seed, known, direction, lexicon, texts, settings.entities))

    def _sitelinks(self, index: int) -> dict[str, tuple[str, str]]:
        """Return the title and URL of the article with this number in each project."""
        found = {}
        for name, known in self._known.items():
            if index < self._articles_of(name):
                title = _titles(known.language).settled(index)
                found[name] = title, f"{known.url}/wiki/{title.replace(' ', '_')}"
        return found

    def _articles_of(self, project: str) -> int:
        """Return the number of a project's settled articles in namespace 0."""
        casts = self._wiki(project).timetable.casts
        return max((c.first_page + c.families * c.script.pages for c in casts if c.namespace == 0), default=0)


def micros(moment: datetime) -> int:
    """Convert a time to microseconds since 1970. A naive datetime raises ValueError."""
    if moment.tzinfo is None:
        raise ValueError("The world requires timezone-aware datetimes; add tzinfo.")
    return (moment - _START) // _MICROSECOND


def moment_of(micros: int) -> datetime:
    """Convert microseconds since 1970 to a time."""
    return _START + timedelta(microseconds=micros)
