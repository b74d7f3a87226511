"""The hours and snapshots of Wikidata, as an area of their own beside the articles'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.sandbox.world.entities.timetable import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from resources.sandbox.store.archived_world import ArchivedWorld
    from resources.sandbox.store.contents import File, Snapshot

AREA = "wikidata"


class EntityContents:
    """What of a world's contents is Wikidata's."""

    def __init__(self, world: ArchivedWorld) -> None:
        self._world = world

    def language(self, project: str) -> str:
        """The language of a project."""
        return self._world.language(project)

    def hour_ready_at(self, hour: datetime) -> datetime:
        """When the list of the hour appears; those of articles and entities appear together."""
        return self._world.hour_ready_at(hour)

    def batches(self, hour: datetime) -> Sequence[File]:
        """The files of the hour."""
        return self._world.batches(hour, [PROJECT]) if self._world.entity_identifiers() else ()

    def snapshot_identifiers(self) -> Sequence[str]:
        """The snapshots there may be: items and properties."""
        return self._world.entity_identifiers()

    def snapshot_times(self, identifier: str, day: datetime) -> tuple[datetime, datetime]:
        """When the export of a day starts and ends."""
        return self._world.snapshot_times(identifier, day)

    def snapshot(self, identifier: str, started: datetime, ended: datetime, serial: int) -> Snapshot | None:
        """The export that started then."""
        return self._world.snapshot(identifier, started, ended, serial)

    def keep_snapshots(self, identifier: str, exports: Sequence[tuple[datetime, int]]) -> None:
        """Remove the archives of all exports of the snapshot but these (start, serial)."""
        self._world.keep_snapshots(identifier, exports)
