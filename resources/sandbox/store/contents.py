"""The protocol between the API and a world: the records that are listed and the archives that are served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path


@runtime_checkable
class File(Protocol):
    """One file (of an hour, a snapshot, a chunk): its record as the list shows it, and the archive."""

    @property
    def record(self) -> dict[str, Any]:
        """The record on the wire, `identifier` and `version` in it."""

    @property
    def path(self) -> Path:
        """The archive, built when it is first asked for."""


@runtime_checkable
class Snapshot(File, Protocol):
    """One export of a snapshot."""

    @property
    def chunks(self) -> Sequence[File]:
        """Its chunks, in the order of the service's list, which is none."""


class References(Protocol):
    """The reference lists, and articles by their names."""

    def codes(self) -> list[dict[str, Any]]:
        """Records of `/v2/codes`."""

    def languages(self) -> list[dict[str, Any]]:
        """Records of `/v2/languages`."""

    def projects(self) -> list[dict[str, Any]]:
        """Records of `/v2/projects`."""

    def namespaces(self) -> list[dict[str, Any]]:
        """Records of `/v2/namespaces`."""

    def article(self, project: str, name: str, hour: datetime) -> dict[str, Any] | None:
        """The whole record of an article by its exact name, as it is after the hour's files; None where there is none."""

    def entity(self, identifier: str, hour: datetime) -> dict[str, Any] | None:
        """The whole record of an item or property, as it is after the hour's files; None where there is none."""


@runtime_checkable
class Contents(Protocol):
    """The hourly files and the snapshots of an area. Calls may take long; they are made in worker threads."""

    def language(self, project: str) -> str:
        """The language of a project."""

    def hour_ready_at(self, hour: datetime) -> datetime:
        """When all exports of the hour have ended and its list appears."""

    def batches(self, hour: datetime) -> Sequence[File]:
        """The files of the hour."""

    def snapshot_identifiers(self) -> Sequence[str]:
        """The snapshots there may be: one for every project and namespace."""

    def snapshot_times(self, identifier: str, day: datetime) -> tuple[datetime, datetime]:
        """When the export of a day starts and ends."""

    def snapshot(self, identifier: str, started: datetime, ended: datetime, serial: int) -> Snapshot | None:
        """The export that started then, or None when it has no page. `serial` distinguishes exports of one moment."""

    def keep_snapshots(self, identifier: str, exports: Sequence[tuple[datetime, int]]) -> None:
        """Remove the archives of all exports of the snapshot but these (start, serial)."""
