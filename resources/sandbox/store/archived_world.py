"""The world with its archives: the files that the service lists and serves, made from the events and pages of the world.

Each archive is a function of the world: it is made when it is first needed, and again, byte for byte, if it was
removed.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.sandbox.store.batch_store import MEMBER_BYTES, BatchStore, Message
from resources.sandbox.store.listed import Piece, Snapshot
from resources.sandbox.store.snapshot_store import Export, SnapshotStore
from resources.sandbox.store.structured import StructuredContents
from resources.sandbox.world.chance import salt
from resources.sandbox.world.world import World, micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from resources.sandbox.settings import Settings
    from resources.sandbox.store.batch_store import Archive
    from resources.sandbox.store.snapshot_store import Holding, Stored

#: Folders of this package whose code and tables decide what is in an archive.
_MADE_BY = ("world/**/*.py", "store/**/*.py", "data/*")


class ArchivedWorld(World):
    """A world and its archives. Safe for threads."""

    def __init__(self, settings: Settings, *, member_bytes: int = MEMBER_BYTES) -> None:
        """Keep the archives of the world of `settings` in its state folder.

        Args:
            settings: Describe the world and the form of its snapshots.
            member_bytes: Uncompressed bytes after which a member of an hour's archive ends.

        Raises:
            ValueError: A project or namespace is not known.
        """
        super().__init__(settings)
        self._projects = settings.projects
        form = _made_by()
        self._batches = BatchStore(settings.state / "archives" / settings.identity, form, member_bytes)
        self._snapshots = SnapshotStore(
            settings.state / "snapshots" / settings.identity,
            form,
            settings.chunk_bytes,
            single_member=settings.single_member,
        )
        store = SnapshotStore(
            settings.state / "structured" / settings.identity,
            form,
            settings.chunk_bytes,
            single_member=settings.single_member,
        )
        self.structured = StructuredContents(settings, self, store, self._whole)

    def batches(self, hour: datetime, projects: Sequence[str] | None = None) -> list[Piece]:
        """The hour files of some projects (None: all that have articles), in the namespaces with changes, made unless they exist.

        Whether the hour is published yet, or no more, is the service's to say.
        """
        hour = hour.astimezone(UTC)
        found = []
        for project in self._projects if projects is None else projects:
            make = partial(self.make_hour, project, hour)
            for archive in make():
                _, namespace = self.parts(archive.identifier)
                ended = _nanoseconds(self.export_ended_at(archive.identifier, hour))
                record = self._record(archive.identifier, project, namespace, archive, ended)
                found.append(Piece(record, archive.version, archive.size, archive.path, make))
        return found

    def make_hour(self, project: str, hour: datetime) -> list[Archive]:
        """The archives of a project's hour, made unless they exist."""
        return self._batches.archives(project, hour, partial(self._messages, project, hour))

    def has_hour(self, project: str, hour: datetime) -> bool:
        """Whether the archives of a project's hour exist."""
        return self._batches.has(project, hour)

    def _messages(self, project: str, hour: datetime) -> dict[str, list[Message]]:
        """The messages of the hour's files by identifier."""
        contents: dict[str, list[Message]] = {}
        for event in self.hour_events(project, hour):
            identifier = f"{project}_namespace_{event.title.namespace}"
            contents.setdefault(identifier, []).append(Message(self.key(event), partial(self.line, event)))
        return contents

    def snapshot(
        self, identifier: str, started: datetime, ended: datetime | None = None, serial: int = 0
    ) -> Snapshot | None:
        """An export of a snapshot, made unless it exists; making a big one takes minutes.

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
        project, namespace = self.parts(identifier)
        export = Export(identifier, micros(started), serial)
        make = partial(self._snapshots.holding, export, partial(self._lines, identifier, started, serial))
        holding = make()
        if holding is None:
            return None
        ended_at = _nanoseconds(
            micros(ended or started) * 1_000 + salt("ended", identifier, export.started) % 1_000 + serial
        )
        chunks = []
        for number, chunk in holding.chunks.items():
            record = self._record(f"{identifier}_chunk_{number}", project, namespace, chunk, ended_at)
            # the whole is rounded, its chunks are not
            record["size"]["value"] = chunk.size / 1_000_000
            chunks.append(Piece(record, chunk.version, chunk.size, chunk.path, make))
        whole = holding.whole
        record = self._record(identifier, project, namespace, whole, ended_at)
        record["chunks"] = [chunk.record["identifier"] for chunk in chunks]
        return Snapshot(record, whole.version, whole.size, whole.path, make, tuple(chunks))

    def _whole(
        self, identifier: str, export: Export, ended: datetime, make: Callable[[], Holding | None]
    ) -> Snapshot | None:
        """An export that has no chunks."""
        holding = make()
        if holding is None:
            return None
        project, namespace = self.parts(identifier)
        ended_at = _nanoseconds(micros(ended) * 1_000 + salt("ended", "parts", identifier, export.started) % 1_000)
        record = self._record(identifier, project, namespace, holding.whole, ended_at)
        return Snapshot(record, holding.whole.version, holding.whole.size, holding.whole.path, make, ())

    def has_snapshot(self, identifier: str, started: datetime, serial: int = 0) -> bool:
        """Whether the archives of an export exist."""
        return self._snapshots.has(Export(identifier, micros(started), serial))

    def keep_snapshots(self, identifier: str, exports: Sequence[tuple[datetime, int]]) -> None:
        """Remove the archives of all exports of the snapshot but these (start, serial)."""
        self._snapshots.keep_only(Export(identifier, micros(started), serial) for started, serial in exports)

    def _lines(self, identifier: str, started: datetime, serial: int) -> Iterator[bytes]:
        for entry in self.snapshot_entries(identifier, started, serial):
            yield self.line(entry.event)

    def _record(
        self, identifier: str, project: str, namespace: int, archive: Archive | Stored, ended: str
    ) -> dict[str, Any]:
        """The record of a file, as the service lists it."""
        return {
            "identifier": identifier,
            "version": archive.version,
            "date_modified": ended,
            "is_part_of": {"identifier": project},
            "in_language": {"identifier": self.language(project)},
            "namespace": {"identifier": namespace},
            "size": {"value": round(archive.size / 1_000_000, 3), "unit_text": "MB"},
        }


def _nanoseconds(since_1970: int) -> str:
    """A moment as records of files write it: to the nanosecond, trailing zeros dropped."""
    seconds, rest = divmod(since_1970, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{rest:09d}".rstrip("0").rstrip(".") + "Z"


def _made_by() -> str:
    """A digest of the code that makes the world: archives of other code are not taken for its own."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(path for pattern in _MADE_BY for path in package.glob(pattern) if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
