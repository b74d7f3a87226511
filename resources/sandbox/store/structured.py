"""Snapshots of structured contents: those of articles once more, each line in parts.

Source: the service's documentation of structured contents: namespace 0 alone, some projects, one archive without chunks,
exported daily.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from resources.sandbox.store.snapshot_store import Export
from resources.sandbox.world.structured import PROJECTS, structured
from resources.sandbox.world.wire import decode, encode
from resources.sandbox.world.world import micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from resources.sandbox.settings import Settings
    from resources.sandbox.store.contents import File
    from resources.sandbox.store.listed import Snapshot
    from resources.sandbox.store.snapshot_store import Holding, SnapshotStore
    from resources.sandbox.world.world import World


AREA = "structured-contents"


class StructuredContents:
    """The snapshots of structured contents, as an area of their own beside the articles'. Safe for threads."""

    def __init__(
        self,
        settings: Settings,
        world: World,
        store: SnapshotStore,
        listed: Callable[[str, Export, datetime, Callable[[], Holding | None]], Snapshot | None],
    ) -> None:
        """`listed` makes of an export what the service lists."""
        projects = settings.projects if 0 in settings.namespaces else ()
        self._identifiers = [f"{project}_namespace_0" for project in projects if project in PROJECTS]
        self._world = world
        self._store = store
        self._listed = listed

    def language(self, project: str) -> str:
        """The language of a project."""
        return self._world.language(project)

    def hour_ready_at(self, hour: datetime) -> datetime:
        """When the list of the hour appears."""
        return self._world.hour_ready_at(hour)

    def batches(self, hour: datetime) -> Sequence[File]:  # noqa: ARG002  whatever the hour
        """The files of the hour: there are none."""
        return ()

    def snapshot_identifiers(self) -> Sequence[str]:
        """The snapshots there are."""
        return self._identifiers

    def snapshot_times(self, identifier: str, day: datetime) -> tuple[datetime, datetime]:
        """When the export of a day starts and ends: as that of the articles."""
        return self._world.snapshot_times(identifier, day)

    def snapshot(
        self, identifier: str, started: datetime, ended: datetime | None = None, serial: int = 0
    ) -> Snapshot | None:
        """An export, made unless it exists."""
        export = Export(identifier, micros(started), serial)
        make = partial(self._store.holding, export, partial(self._lines, identifier, started, serial))
        return self._listed(identifier, export, ended or started, make)

    def has(self, identifier: str, started: datetime, serial: int = 0) -> bool:
        """Whether the archive of an export exists."""
        return self._store.has(Export(identifier, micros(started), serial))

    def keep_snapshots(self, identifier: str, exports: Sequence[tuple[datetime, int]]) -> None:
        """Remove the archives of all exports of the snapshot but these (start, serial)."""
        self._store.keep_only(Export(identifier, micros(started), serial) for started, serial in exports)

    def _lines(self, identifier: str, started: datetime, serial: int) -> Iterator[bytes]:
        for entry in self._world.snapshot_entries(identifier, started, serial):
            line = self._world.line(entry.event)
            parsed = structured(decode(line))
            yield line if parsed is None else encode(parsed)
