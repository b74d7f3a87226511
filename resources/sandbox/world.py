"""The world behind the sandbox: what every wiki in it holds and tells, at any moment, from a seed alone.

Belongs here: the questions that the service (and whoever checks a mirror of it) asks of the world. Does not belong
here: HTTP, accounts, clocks. The world has no present: every question names its moment, and no answer depends on the
questions before it.

`truth` reads the page table at a moment (`pages`); the hour files tell the events that changed it. Neither is made
from the other.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.sandbox import reference
from resources.sandbox.archives import MEMBER_BYTES, Message, Store
from resources.sandbox.articles import Writer
from resources.sandbox.bodies import Library
from resources.sandbox.census import Census
from resources.sandbox.chance import salt
from resources.sandbox.corpus import Corpus
from resources.sandbox.depot import Depot, Export
from resources.sandbox.language import Lexicon
from resources.sandbox.schedule import HOUR, Timetable, usual_articles
from resources.sandbox.titles import Titles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from resources.sandbox.archives import Archive
    from resources.sandbox.census import Entry
    from resources.sandbox.depot import Stored
    from resources.sandbox.pages import Event
    from resources.sandbox.settings import Settings

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SERVED = (0, 6, 10, 14)
#: Most articles of a project that nobody asked for: a first run shall take seconds.
_ARTICLES = 5_000
#: Minutes after the end of an hour at which a project's export starts, and how long it may take.
_EXPORT_FROM, _EXPORT_SPAN = 2, 5
_MINUTE = 60_000_000
_EXPORT_SECONDS = 55
#: The list of an hour appears no earlier than this after the hour's end, and this long after the last export.
_LISTED_AT_LEAST = timedelta(minutes=4)
_LISTED_AFTER = timedelta(seconds=80)
#: Minutes after midnight at which a project's snapshots are exported, and how long that may take.
_SNAPSHOT_FROM, _SNAPSHOT_SPAN = 20, 20
_SNAPSHOT_SECONDS = 5_400


@dataclass(frozen=True)
class Piece:
    """A file that the service hands out: of an hour, a snapshot or a chunk.

    Attributes:
        record: What the service tells of it.
        version: The MD5 of the archive.
        size: Its bytes.
    """

    record: dict[str, Any]
    version: str
    size: int
    _place: Path
    _make_again: Callable[[], object]

    @property
    def path(self) -> Path:
        """The archive. It is made again, byte for byte, if it was removed since."""
        if not self._place.exists():
            self._make_again()
        return self._place


@dataclass(frozen=True)
class Snapshot(Piece):
    """An export of a project's namespace: the whole archive, and the same lines in chunks."""

    chunks: tuple[Piece, ...]


@dataclass(frozen=True)
class _Wiki:
    timetable: Timetable
    writer: Writer


class World:
    """All wikis of a sandbox. Safe for threads; nothing is made before it is asked for."""

    def __init__(self, settings: Settings, *, member_bytes: int = MEMBER_BYTES) -> None:
        """Describe the world of `settings`.

        Args:
            settings: Seed, projects, namespaces, rates; `state` is where archives are kept.
            member_bytes: Uncompressed bytes after which a member of an archive ends.

        Raises:
            ValueError: A project or namespace is not known.
        """
        self._settings = settings
        self._known = {name: reference.project(name) for name in settings.projects}
        unknown = set(settings.namespaces) - set(_SERVED)
        if unknown:
            raise ValueError(f"The service has the namespaces 0, 6, 10 and 14, not {sorted(unknown)}.")
        self._wikis: dict[str, _Wiki] = {}
        self._corpus: Corpus | None = None
        self._guard = threading.Lock()
        form = _made_by()
        self._store = Store(settings.state / "archives" / settings.identity, form, member_bytes)
        self._depot = Depot(
            settings.state / "snapshots" / settings.identity,
            form,
            settings.chunk_bytes,
            single_member=settings.single_member,
        )

    # --- reference -----------------------------------------------------------------------------------------------

    def codes(self) -> list[dict[str, Any]]:
        """The kinds of wiki, as `/v2/codes` lists them."""
        return reference.codes()

    def languages(self) -> list[dict[str, Any]]:
        """The languages, as `/v2/languages` lists them."""
        return reference.languages()

    def projects(self) -> list[dict[str, Any]]:
        """The projects, as `/v2/projects` lists them: those with articles here, and more."""
        return reference.projects()

    def namespaces(self) -> list[dict[str, Any]]:
        """The namespaces, as `/v2/namespaces` lists them."""
        return reference.namespaces()

    # --- pages and events ----------------------------------------------------------------------------------------

    def events(self, project: str, start: datetime, end: datetime) -> Iterator[Event]:
        """Every event of the project published in [start, end), in order of publication.

        All types, visibility changes among them, of the namespaces that are served. `record` tells what one holds.
        """
        first, last = _micros(start), _micros(end)
        timetable = self._wiki(project).timetable
        for hour in range(first // HOUR, -(-last // HOUR)):
            for event in timetable.hour(hour, last):
                if first <= event.published < last and event.title.namespace in self._settings.namespaces:
                    yield event

    def record(self, event: Event) -> dict[str, Any]:
        """The record that an event's message holds, in wire form."""
        return self._wiki(event.project).writer.record(event)

    def pages_at(
        self, project: str, namespace: int, moment: datetime, since: datetime | None = None
    ) -> Iterator[Event]:
        """The articles of a namespace that are live after all events published before `moment`.

        Of each is given the `update` that was last published of it, with the page as the page table holds it at
        `moment`. Nothing is held in memory but the page at hand.

        Args:
            project: Database name.
            namespace: Namespace.
            moment: Any moment, timezone-aware.
            since: Only pages with an `update` published from this moment on.

        Raises:
            ValueError: The sandbox has no articles of that project or namespace.
        """
        if namespace not in self._settings.namespaces:
            raise ValueError(
                f"This sandbox has no articles in namespace {namespace}, but in {self._settings.namespaces}."
            )
        timetable = self._wiki(project).timetable
        end, begin = _micros(moment), None if since is None else _micros(since)
        for cast in timetable.casts:
            if namespace != cast.namespace and namespace not in cast.script.namespaces:
                continue
            if begin is None:
                families = timetable.families(cast)
            else:
                families = timetable.busy(cast, begin // HOUR, (end - 1) // HOUR)
            for family in families:
                for page in timetable.play(cast, family, end)[0].live(namespace):
                    event = page.event
                    # scripts see to it that no page is live without an update in one of the last cycles
                    assert event is not None
                    if begin is None or event.published >= begin:
                        yield event._replace(state=page.state, title=page.title)

    def truth(
        self, project: str, namespace: int, moment: datetime, since: datetime | None = None
    ) -> Iterator[dict[str, Any]]:
        """The records of the articles that are live after all events published before `moment`, whole.

        Read from the page table, never folded from events. Arguments as of `pages_at`.
        """
        writer = self._wiki(project).writer
        for event in self.pages_at(project, namespace, moment, since):
            yield writer.record(event)

    # --- hour files ----------------------------------------------------------------------------------------------

    def export_started_at(self, project: str, hour: datetime) -> datetime:
        """The end of what the hour's files of a project hold: they tell what was published before it.

        Some minutes after the hour's end, the same for all namespaces; the hour's end itself without overlap.
        """
        if not self._settings.overlap:
            return hour + timedelta(hours=1)
        return _moment(self._export(project, hour))

    def hour_ready_at(self, hour: datetime) -> datetime:
        """When the list of the hour appears: all exports of all projects have ended."""
        last = max(_moment(self._export(project, hour)) for project in self._settings.projects)
        return max(hour + timedelta(hours=1) + _LISTED_AT_LEAST, last + _LISTED_AFTER).replace(microsecond=0)

    def batches(self, hour: datetime) -> list[Piece]:
        """The hour files of all projects and namespaces with changes, made where they do not lie there.

        Whether the hour is published yet, or no more, is the service's to say.
        """
        hour = hour.astimezone(UTC)
        found = []
        for project in self._settings.projects:
            make = partial(self.make_hour, project, hour)
            for archive in make():
                namespace = int(archive.identifier.rpartition("_")[2])
                ended = self._ended(archive.identifier, project, hour)
                record = self._record(archive.identifier, project, namespace, archive, ended)
                found.append(Piece(record, archive.version, archive.size, archive.path, make))
        return found

    def make_hour(self, project: str, hour: datetime) -> list[Archive]:
        """The archives of a project's hour, made where they do not lie there."""
        return self._store.archives(project, hour, partial(self._messages, project, hour))

    def has_hour(self, project: str, hour: datetime) -> bool:
        """Whether the archives of a project's hour lie there."""
        return self._store.has(project, hour)

    def _messages(self, project: str, hour: datetime) -> dict[str, list[Message]]:
        """The messages of the hour's files by identifier. Changes of visibility are not among them."""
        writer = self._wiki(project).writer
        contents: dict[str, list[Message]] = {}
        for event in self.events(project, hour, self.export_started_at(project, hour)):
            if event.type != "visibility-change":
                identifier = f"{project}_namespace_{event.title.namespace}"
                key = f"/{project}/{writer.name(event.title)}"
                contents.setdefault(identifier, []).append(Message(key, partial(writer.line, event)))
        return contents

    def _export(self, project: str, hour: datetime) -> int:
        """When the export of a project's hour starts, microseconds since 1970."""
        span = salt("export", self._settings.seed, project, _micros(hour)) % (_EXPORT_SPAN * _MINUTE)
        return _micros(hour) + HOUR + _EXPORT_FROM * _MINUTE + span

    def _ended(self, identifier: str, project: str, hour: datetime) -> str:
        """When the export of an archive ended."""
        took = salt("export", self._settings.seed, identifier, _micros(hour)) % (_EXPORT_SECONDS * 10**9)
        return _nanoseconds(self._export(project, hour) * 1_000 + 5 * 10**9 + took)

    # --- snapshots -----------------------------------------------------------------------------------------------

    def snapshot_identifiers(self) -> list[str]:
        """The snapshots there may be: one for every project and namespace."""
        return [f"{p}_namespace_{n}" for p in self._settings.projects for n in self._settings.namespaces]

    def snapshot_times(self, identifier: str, day: datetime) -> tuple[datetime, datetime]:
        """When the export of a day starts, the same for all namespaces of a project, and when it ends.

        Args:
            identifier: Of the snapshot.
            day: Any moment of the day, UTC.
        """
        midnight = _micros(day.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
        project, _ = self._parts(identifier)
        draw = salt("snapshot", self._settings.seed, project, midnight)
        started = midnight + _SNAPSHOT_FROM * _MINUTE + draw % (_SNAPSHOT_SPAN * _MINUTE)
        took = salt("snapshot", self._settings.seed, identifier, midnight) % (_SNAPSHOT_SECONDS * 1_000_000)
        return _moment(started), _moment(started + 5 * _MINUTE + took)

    def snapshot(
        self, identifier: str, started: datetime, ended: datetime | None = None, serial: int = 0
    ) -> Snapshot | None:
        """An export of a snapshot, made unless it lies there; making a big one takes minutes.

        Args:
            identifier: Of the snapshot.
            started: It holds the articles that were live after everything published before this moment.
            ended: When it was complete; None: at once.
            serial: Tells exports of the same moment apart: the same articles, another order and version.

        Returns:
            The snapshot; None when the namespace has no article.

        Raises:
            ValueError: The sandbox has no articles of that project or namespace.
        """
        project, namespace = self._parts(identifier)
        export = Export(identifier, _micros(started), serial)
        make = partial(self._depot.holding, export, partial(self._lines, identifier, started, serial))
        holding = make()
        if holding is None:
            return None
        told = _nanoseconds(
            _micros(ended or started) * 1_000 + salt("ended", identifier, export.started) % 1_000 + serial
        )
        chunks = []
        for number, chunk in holding.chunks.items():
            record = self._record(f"{identifier}_chunk_{number}", project, namespace, chunk, told)
            # the whole is rounded, its chunks are not
            record["size"]["value"] = chunk.size / 1_000_000
            chunks.append(Piece(record, chunk.version, chunk.size, chunk.path, make))
        whole = holding.whole
        record = self._record(identifier, project, namespace, whole, told)
        record["chunks"] = [chunk.record["identifier"] for chunk in chunks]
        return Snapshot(record, whole.version, whole.size, whole.path, make, tuple(chunks))

    def has_snapshot(self, identifier: str, started: datetime, serial: int = 0) -> bool:
        """Whether the archives of an export lie there."""
        return self._depot.has(Export(identifier, _micros(started), serial))

    def snapshot_entries(self, identifier: str, started: datetime, serial: int = 0) -> Iterable[Entry]:
        """What an export holds, line by line: the `update` that each line tells, and why it stands there.

        Those that are `live`, and copies of them, are the pages of `pages_at`; the others are `older` or `lingering`.
        """
        project, namespace = self._parts(identifier)
        return Census(self._wiki(project).timetable, namespace, _micros(started), serial)

    def keep_snapshots(self, identifier: str, exports: Sequence[tuple[datetime, int]]) -> None:
        """Remove the archives of all exports of the snapshot but these (start, serial)."""
        self._depot.keep_only(Export(identifier, _micros(started), serial) for started, serial in exports)

    def _lines(self, identifier: str, started: datetime, serial: int) -> Iterator[bytes]:
        writer = self._wiki(self._parts(identifier)[0]).writer
        for entry in self.snapshot_entries(identifier, started, serial):
            yield writer.line(entry.event)

    def _parts(self, identifier: str) -> tuple[str, int]:
        """Project and namespace of a snapshot."""
        if identifier not in self.snapshot_identifiers():
            raise ValueError(
                f"This sandbox has no snapshot {identifier!r}; it has {', '.join(self.snapshot_identifiers())}."
            )
        project, _, namespace = identifier.rpartition("_namespace_")
        return project, int(namespace)

    def _record(
        self, identifier: str, project: str, namespace: int, archive: Archive | Stored, ended: str
    ) -> dict[str, Any]:
        """A file as the service tells of it."""
        return {
            "identifier": identifier,
            "version": archive.version,
            "date_modified": ended,
            "is_part_of": {"identifier": project},
            "in_language": {"identifier": self._known[project].language},
            "namespace": {"identifier": namespace},
            "size": {"value": round(archive.size / 1_000_000, 3), "unit_text": "MB"},
        }

    # --- making --------------------------------------------------------------------------------------------------

    def _wiki(self, project: str) -> _Wiki:
        with self._guard:
            if project not in self._wikis:
                self._wikis[project] = self._make(project)
            return self._wikis[project]

    def _make(self, project: str) -> _Wiki:
        settings = self._settings
        if project not in self._known:
            raise ValueError(f"This sandbox has no articles of {project!r}, but of {', '.join(self._known)}.")
        known = self._known[project]
        lexicon = Lexicon(known.language)
        if settings.corpus is not None and self._corpus is None:
            self._corpus = Corpus(settings.corpus)
        texts = self._corpus or Library(lexicon, settings.seed, settings.body_bytes)
        articles, rate = settings.articles, settings.changes_per_hour
        if articles is None and usual_articles(rate) > _ARTICLES:
            articles = _ARTICLES
        timetable = Timetable(settings.seed, project, settings.namespaces, rate, Titles(lexicon), articles)
        direction = reference.LANGUAGES[known.language].direction
        return _Wiki(timetable, Writer(settings.seed, known, direction, lexicon, texts))


def _micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    if moment.tzinfo is None:
        raise ValueError("The world needs timezone-aware moments; add tzinfo.")
    return (moment - _START) // _MICROSECOND


def _moment(micros: int) -> datetime:
    return _START + timedelta(microseconds=micros)


def _nanoseconds(since_1970: int) -> str:
    """A moment as records of files tell it: to the nanosecond, trailing zeros dropped."""
    seconds, rest = divmod(since_1970, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def _made_by() -> str:
    """A digest of the code that makes the world: archives of other code are not taken for its own."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
