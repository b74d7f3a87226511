"""World whose archives are built from events and pages on first use.

Articles, Wikidata and structured contents are separate areas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from resources.sandbox.settings import Settings
from resources.sandbox.store.archives import MEMBER_BYTES, Archive, BatchStore, Message, Piece, Snapshot
from resources.sandbox.store.snapshot_store import Export, SnapshotStore
from resources.sandbox.world import structured
from resources.sandbox.world.entities import PROJECT
from resources.sandbox.world.wire import decode, encode, salt
from resources.sandbox.world.world import World, micros

WIKIDATA, STRUCTURED = "wikidata", "structured-contents"
#: Code and tables that determine archive contents.
_MADE_BY = ("world/**/*.py", "store/**/*.py", "data/*")


class _Stored:
    """Area whose snapshots are in `_snapshots`."""

    _snapshots: SnapshotStore

    def has_snapshot(self, identifier: str, started: datetime, serial: int = 0) -> bool:
        return self._snapshots.has(Export(identifier, micros(started), serial))

    def keep_snapshots(self, identifier: str, exports: Iterable[tuple[datetime, int]]) -> None:
        """Remove a snapshot's archives, except those of the (start, serial) pairs in `exports`."""
        kept = [Export(identifier, micros(started), serial) for started, serial in exports]
        self._snapshots.keep_only(identifier, kept)


class ArchivedWorld(_Stored, World):
    """Thread-safe world that stores its archives on disk."""

    def __init__(self, settings: Settings, *, member_bytes: int = MEMBER_BYTES) -> None:
        super().__init__(settings)
        self._projects = settings.projects
        form = _made_by()
        self._batches = BatchStore(settings.state / "archives" / settings.identity, form, member_bytes)
        self._snapshots, store = (
            SnapshotStore(
                settings.state / kind / settings.identity,
                form,
                settings.chunk_bytes,
                single_member=settings.single_member,
            )
            for kind in ("snapshots", "structured")
        )
        self.structured = StructuredContents(self, settings, store)

    def batches(self, hour: datetime, projects: Sequence[str] | None = None) -> list[Piece]:
        """Return an hour's batches, one per project and namespace with changes. `projects` defaults to all projects.

        Missing archives are built. The caller checks whether the hour has been published and is still retained.
        """
        hour = hour.astimezone(UTC)
        found = []
        for project in self._projects if projects is None else projects:
            for archive in self.make_hour(project, hour):
                ended = self.export_ended_at(archive.identifier, hour)
                record = self.record_of(archive.identifier, archive.identifier, archive, ended)
                found.append(Piece(**vars(archive), record=record))
        return found

    def make_hour(self, project: str, hour: datetime) -> list[Archive]:
        """Return a project's archives for an hour. Missing archives are built."""
        return self._batches.archives(project, hour, partial(self._messages, project, hour))

    def has_hour(self, project: str, hour: datetime) -> bool:
        return self._batches.has(project, hour)

    def _messages(self, project: str, hour: datetime) -> dict[str, list[Message]]:
        """Return the hour's messages by batch identifier."""
        contents: dict[str, list[Message]] = {}
        for event in self.hour_events(project, hour):
            identifier = f"{project}_namespace_{event.title.namespace}"
            contents.setdefault(identifier, []).append(Message(self.key(event), partial(self.line, event)))
        return contents

    def snapshot(
        self, identifier: str, started: datetime, ended: datetime | None = None, serial: int = 0
    ) -> Snapshot | None:
        """Return the export that started at `started`, or None if the namespace has no articles.

        Missing archives are built. `serial` distinguishes exports with the same start. `ended` defaults to `started`.
        """
        self.parts(identifier)
        export = Export(identifier, micros(started), serial)
        holding = self._snapshots.holding(export, partial(self._lines, identifier, started, serial))
        if holding is None:
            return None
        ended_at = micros(ended or started) * 1_000 + salt("ended", identifier, export.started) % 1_000 + serial
        chunks = []
        for number, chunk in holding.chunks.items():
            record = self.record_of(f"{identifier}_chunk_{number}", identifier, chunk, ended_at)
            # chunk sizes are not rounded, unlike snapshot sizes
            record["size"]["value"] = chunk.size / 1_000_000
            chunks.append(Piece(**vars(chunk), record=record))
        return self.listed(identifier, holding.whole, ended_at, tuple(chunks))

    def listed(self, identifier: str, whole: Archive, ended_at: int, chunks: tuple[Piece, ...] = ()) -> Snapshot:
        """Return an export with its record. The record contains the `chunks` key only if there are chunks."""
        record = self.record_of(identifier, identifier, whole, ended_at)
        if chunks:
            record["chunks"] = [chunk.record["identifier"] for chunk in chunks]
        return Snapshot(**vars(whole), record=record, chunks=chunks)

    def _lines(self, identifier: str, started: datetime, serial: int) -> Iterator[bytes]:
        for entry in self.snapshot_entries(identifier, started, serial):
            yield self.line(entry.event)

    def record_of(self, name: str, identifier: str, archive: Archive, ended_at: int) -> dict[str, Any]:
        """Return a file's record. `ended_at` is the time when its export ended, in nanoseconds since 1970."""
        project, namespace = self.parts(identifier)
        return {
            "identifier": name,
            "version": archive.version,
            "date_modified": _nanoseconds(ended_at),
            "is_part_of": {"identifier": project},
            "in_language": {"identifier": self.language(project)},
            "namespace": {"identifier": namespace},
            "size": {"value": round(archive.size / 1_000_000, 3), "unit_text": "MB"},
        }


class EntityContents:
    """Wikidata's batches and snapshots. All other attributes are delegated to the world."""

    def __init__(self, world: ArchivedWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def batches(self, hour: datetime) -> list[Piece]:
        return self._world.batches(hour, [PROJECT]) if self._world.entity_identifiers() else []

    def snapshot_identifiers(self) -> list[str]:
        return self._world.entity_identifiers()


class StructuredContents(_Stored, EntityContents):
    """Structured contents snapshots, which contain the parsed records of the article snapshots.

    Source: the service's documentation of structured contents. Every day, the service exports namespace 0 of some
    projects as one archive without chunks.
    """

    def __init__(self, world: ArchivedWorld, settings: Settings, store: SnapshotStore) -> None:
        super().__init__(world)
        projects = settings.projects if 0 in settings.namespaces else ()
        self._identifiers = [f"{project}_namespace_0" for project in projects if project in structured.PROJECTS]
        self._snapshots = store

    def batches(self, _: datetime) -> list[Piece]:
        return []

    def snapshot_identifiers(self) -> list[str]:
        return self._identifiers

    def snapshot(
        self, identifier: str, started: datetime, ended: datetime | None = None, serial: int = 0
    ) -> Snapshot | None:
        """Return the export that started at `started`, or None if the namespace has no articles."""
        export = Export(identifier, micros(started), serial)
        holding = self._snapshots.holding(export, partial(self._lines, identifier, started, serial))
        if holding is None:
            return None
        ended_at = micros(ended or started) * 1_000 + salt("ended", "parts", identifier, export.started) % 1_000
        return self._world.listed(identifier, holding.whole, ended_at)

    def _lines(self, identifier: str, started: datetime, serial: int) -> Iterator[bytes]:
        for entry in self._world.snapshot_entries(identifier, started, serial):
            line = self._world.line(entry.event)
            parsed = structured.structured(decode(line))
            yield line if parsed is None else encode(parsed)


#: Files of an area. Calls can take a long time, so they must run in worker threads.
Contents = ArchivedWorld | EntityContents | StructuredContents


def _nanoseconds(since_1970: int) -> str:
    """Format a time with nanoseconds and without trailing zeros, as in file records."""
    seconds, rest = divmod(since_1970, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def _made_by() -> str:
    """Return a digest of the code that builds archives. Changed code must not reuse old archives."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(path for pattern in _MADE_BY for path in package.glob(pattern) if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
