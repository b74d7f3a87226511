"""Snapshots and their chunks: fetched as one set, although the service replaces them under the same names.

Belongs here: the operations on snapshots and chunks, the pinned versions, and what it means when one of them changes.
Does not belong here: which form is better (`snapshot_choice`), how a file comes and is verified (`downloads`).

The identifiers of a snapshot and of its chunks are used again by the next export, which rewrites the chunks one after
another: files belong together only while no version has changed. A plan pins the versions; they are read again before
each file and, for chunks, after the last. One file is a set by itself: once its bytes are those of the pinned version,
nothing that happens at the service later can spoil it.

Source: the service's reference for snapshots (`/v2/snapshots`), their chunks and downloads.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from resources.enterprise import errors, models
from resources.enterprise.download.downloader import Download, Downloader, ReplacedError
from resources.enterprise.download.landing import is_landed, write_atomically
from resources.enterprise.download.partial_file import Part
from resources.enterprise.download.source import Source
from resources.enterprise.http import endpoints
from resources.enterprise.models import Chunk, Snapshot
from resources.enterprise.snapshot.choice import plan_snapshot
from resources.enterprise.snapshot.plan import Disk, Piece, SnapshotPlan, Wishes, archive_name, spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from resources.enterprise.questions import Questions

    Progress = Callable[[int, int | None], None]

_log = logging.getLogger(__name__)

_SNAPSHOTS: Final = models.list_of(Snapshot)
_SNAPSHOT: Final = TypeAdapter(Snapshot)
_CHUNKS: Final = models.list_of(Chunk)
_CHUNK: Final = TypeAdapter(Chunk)

#: What every other file of the plan would meet as well: no further one is begun.
_MEETS_ALL: Final = (
    errors.StaleSnapshot,
    errors.QuotaExceeded,
    errors.DiskFull,
    errors.AuthenticationError,
    errors.Forbidden,
    errors.UnreachableError,
)


class Snapshots:
    """The service's snapshots, for one account. Safe for several threads.

    Args:
        questions: Asks the service.
        downloader: Fetches files.
        remaining: Gives the account's counters.
    """

    def __init__(
        self, questions: Questions, downloader: Downloader, remaining: Callable[[], Mapping[str, models.Quota]]
    ) -> None:
        self._questions = questions
        self._downloader = downloader
        self._remaining = remaining

    # --- records -----------------------------------------------------------------------------------------------------

    def listing(self) -> models.Listing[Snapshot]:
        """`GET /v2/snapshots`."""
        return self._questions.listing(endpoints.SNAPSHOTS, _SNAPSHOTS, "list the snapshots")

    def snapshot(self, identifier: str) -> Snapshot:
        """`GET /v2/snapshots/{identifier}`."""
        return self._snapshot(identifier)[0]

    def chunks(self, identifier: str) -> models.Listing[Chunk]:
        """`GET /v2/snapshots/{identifier}/chunks`."""
        return self._questions.listing(endpoints.chunks(identifier), _CHUNKS, f"list the chunks of {identifier}")

    def chunk(self, identifier: str, chunk: str | int) -> Chunk:
        """`GET /v2/snapshots/{identifier}/chunks/{chunk}`."""
        return self._chunk(identifier, chunk)[0]

    def head(self, identifier: str, chunk: str | int | None = None) -> models.ArchiveHead:
        """`HEAD` of the download of a snapshot or of one of its chunks."""
        path = endpoints.snapshot(identifier) if chunk is None else endpoints.chunk(identifier, chunk)
        what = identifier if chunk is None else f"chunk {chunk} of {identifier}"
        return self._questions.head(endpoints.download(path), f"read the size of {what}")

    # --- a set of files ----------------------------------------------------------------------------------------------

    def plan(self, identifier: str, folder: Path, wishes: Wishes) -> SnapshotPlan:
        """Read what there is, and decide. See `EnterpriseClient.plan_snapshot`."""
        snapshot = self.snapshot(identifier)
        chunks: tuple[Chunk, ...] = ()
        if snapshot.chunks and wishes.form != "whole":
            try:
                chunks = self.chunks(identifier).records
            except errors.NotFound:  # being exported, or without chunks now: the plan says so
                _log.info("%s names chunks, and the service has no list of them.", identifier)
        return plan_snapshot(
            snapshot,
            chunks,
            folder,
            quotas=self._remaining(),
            disk=look(folder, (snapshot, *chunks)),
            cores=len(os.sched_getaffinity(0)),
            wishes=wishes,
        )

    def fetch(self, plan: SnapshotPlan, piece: Piece, progress: Progress | None) -> Download:
        """Fetch one file of a plan. See `EnterpriseClient.fetch_piece`."""
        plan.check()
        count = 0
        if not is_landed(piece.target, piece.version):
            changes, count = self._changes(plan, piece)
            if changes:
                raise self._stale(plan, changes)
        try:
            done = self._downloader.fetch(self._source(plan, piece.record), piece.target, progress)
        except ReplacedError as error:
            changes = [_version_of(piece, error.version)]
        except errors.NotFound:
            changes, _ = self._changes(plan, piece)
            if not changes:
                raise  # the records are as they were, and the archive is not in the store
        else:
            if done.version == piece.version:
                return replace(done, request_count=done.request_count + count)
            changes = [_version_of(piece, done.version)]
        raise self._stale(plan, changes)

    def confirm(self, plan: SnapshotPlan) -> Path:
        """See that the set is whole and unchanged, and write its manifest. See `EnterpriseClient.confirm_snapshot`."""
        for piece in plan.pieces:
            if not is_landed(piece.target, piece.version):
                raise errors.StateError(
                    f"{piece.target.name} is not in {plan.folder}, so {plan.identifier} is not complete. The other files "
                    "are kept. Plan it again and run it: only what is missing is fetched."
                )
        if plan.form == "chunks" and (changes := self._changes_of_set(plan)):
            raise self._stale(plan, changes)
        content = {
            "snapshot": plan.snapshot.model_dump(mode="json", exclude_none=True),
            "form": plan.form,
            "files": [_entry(piece) for piece in plan.pieces],
        }
        write_atomically(plan.manifest, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
        return plan.manifest

    def fetch_all(self, plan: SnapshotPlan, workers: int, progress: Progress | None) -> tuple[Download, ...]:
        """Fetch all files of a plan and confirm the set. See `EnterpriseClient.download_snapshot`."""
        plan.check()
        total = _Total(plan, progress)
        over = threading.Event()

        def fetch(piece: Piece) -> Download | None:
            if over.is_set():
                return None
            try:
                return self.fetch(plan, piece, total.of(piece))
            except _MEETS_ALL:
                over.set()
                raise

        total.report()
        pool = ThreadPoolExecutor(max(1, workers), thread_name_prefix="snapshot")
        try:
            futures = [pool.submit(fetch, piece) for piece in plan.pieces]
            wait(futures)  # where one file fails by itself, the others are worth having
        except BaseException:  # interrupted: what is under way ends at its next byte, and is kept
            over.set()
            total.stop()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()
        failures = [error for future in futures if (error := future.exception()) is not None]
        if failures:
            raise next((error for error in failures if isinstance(error, _MEETS_ALL)), failures[0])
        self.confirm(plan)
        return tuple(done for future in futures if (done := future.result()) is not None)

    # --- pinned versions ---------------------------------------------------------------------------------------------

    def _changes(self, plan: SnapshotPlan, piece: Piece) -> tuple[list[str], int]:
        """What differs from the plan, of the snapshot and of one of its files; and the requests it took to see."""
        count = 0
        try:
            snapshot, count = self._snapshot(plan.identifier)
            if snapshot.version != plan.snapshot.version:
                return [_version_of(plan.snapshot, snapshot.version)], count
            if plan.form == "chunks":
                chunk, more = self._chunk(plan.identifier, piece.identifier)
                count += more
                if chunk.version != piece.version:
                    return [_version_of(piece, chunk.version)], count
        except errors.NotFound:
            return [f"{piece.identifier} is gone"], count + 1
        return [], count

    def _changes_of_set(self, plan: SnapshotPlan) -> list[str]:
        """What differs from the plan, of the snapshot and of all its chunks."""
        try:
            snapshot = self.snapshot(plan.identifier)
            if snapshot.version != plan.snapshot.version:
                return [_version_of(plan.snapshot, snapshot.version)]
            now = {chunk.identifier: chunk.version for chunk in self.chunks(plan.identifier)}
        except errors.NotFound:
            return [f"{plan.identifier} or the list of its chunks is gone"]
        pinned = {piece.identifier: piece.version for piece in plan.pieces}
        gone = [f"{name} is gone" for name in pinned if name not in now]
        new = [f"{name} is new" for name in sorted(now) if name not in pinned]
        other = [
            _version_of(p, now[p.identifier]) for p in plan.pieces if now.get(p.identifier, p.version) != p.version
        ]
        return gone + new + other

    def _stale(self, plan: SnapshotPlan, changes: list[str]) -> errors.StaleSnapshot:
        """The set is none any more: what changed, what was kept, what starting again costs."""
        kept = [piece for piece in plan.pieces if is_landed(piece.target, piece.version)]
        size = spoken(sum(piece.target.stat().st_size for piece in kept))
        files = "file" if len(kept) == 1 else "files"
        kept_text = (
            f"{len(kept)} complete {files} of it ({size}) are kept in {plan.folder}"
            if kept
            else "Nothing of it was complete"
        )
        more = f", and {len(changes) - 3} more" if len(changes) > 3 else ""
        what = f"{plan.identifier} was replaced at the service since it was planned: {', '.join(changes[:3])}{more}."
        try:
            fresh = self.plan(plan.identifier, plan.folder, plan.wishes)
        except errors.EnterpriseError as error:
            _log.info("Could not find out what %s costs now: %s", plan.identifier, error)
            return errors.StaleSnapshot(
                f"{what} {kept_text}. What starting again costs cannot be told yet, as the service does not list it as a "
                "whole: plan it again later, which costs nothing, and run it then."
            )
        return errors.StaleSnapshot(
            f"{what} {kept_text}. Starting again: {fresh.cost[0].lower()}{fresh.cost[1:]}. Plan it again and run it; "
            "files whose version is still the same are not fetched again.",
            restart_units=fresh.unit_count,
            restart_bytes=fresh.missing_bytes,
        )

    # --- within ------------------------------------------------------------------------------------------------------

    def _snapshot(self, identifier: str) -> tuple[Snapshot, int]:
        return self._questions.record(endpoints.snapshot(identifier), _SNAPSHOT, f"read the record of {identifier}")

    def _chunk(self, identifier: str, chunk: str | int) -> tuple[Chunk, int]:
        doing = f"read the record of chunk {chunk} of {identifier}"
        return self._questions.record(endpoints.chunk(identifier, chunk), _CHUNK, doing)

    def _source(self, plan: SnapshotPlan, record: Snapshot | Chunk) -> Source:
        if plan.form == "whole":
            path = endpoints.download(endpoints.snapshot(plan.identifier))
        else:
            path = endpoints.download(endpoints.chunk(plan.identifier, record.identifier))

        def read_again() -> tuple[Source, int]:
            fresh: Snapshot | Chunk
            if plan.form == "whole":
                fresh, count = self._snapshot(plan.identifier)
            else:
                fresh, count = self._chunk(plan.identifier, record.identifier)
            return self._source(plan, fresh), count

        return Source(
            identifier=record.identifier,
            version=record.version,
            size_hint=record.stated_bytes,
            url_path=path,
            resolve=lambda: self._questions.address(path, f"get the address of {record.identifier}"),
            read_again=read_again,
            pinned=True,
        )


class _StoppedError(Exception):
    """The whole was interrupted; this file ends quietly."""


class _Total:
    """The progress of all files as one, and the way to stop them."""

    def __init__(self, plan: SnapshotPlan, progress: Progress | None) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False
        self._done = {piece.identifier: piece.there_bytes for piece in plan.pieces}
        self._size = {piece.identifier: piece.size_bytes for piece in plan.pieces}

    def stop(self) -> None:
        """End every file at its next byte."""
        self._stopped = True

    def of(self, piece: Piece) -> Progress:
        """What to tell the progress of one file."""

        def heard(done: int, size: int | None) -> None:
            if self._stopped:
                raise _StoppedError
            self.report(piece.identifier, done, size)

        return heard

    def report(self, identifier: str | None = None, done: int = 0, size: int | None = None) -> None:
        """Tell how far all of it is."""
        if self._progress is None:
            return
        with self._lock:
            if identifier is not None:
                self._done[identifier] = done
                if size is not None:
                    self._size[identifier] = size
            self._progress(sum(self._done.values()), sum(self._size.values()))


def look(folder: Path, records: Iterable[Snapshot | Chunk]) -> Disk:
    """What of these records lies in a folder, and how much room there is. Nothing is read but sidecars."""
    landed: dict[str, int] = {}
    left: dict[str, int] = {}
    for record in records:
        name = archive_name(record)
        if is_landed(folder / name, record.version):
            landed[name] = (folder / name).stat().st_size
        elif there := Part.left_bytes(folder / name, record.version):
            left[name] = there
    return Disk(shutil.disk_usage(_existing(folder)).free, landed, left)


def superseded(plan: SnapshotPlan) -> tuple[Path, ...]:
    """Files of the same snapshot in the plan's folder that belong to another version or form, unfinished ones too.

    They may be removed once the plan's set is confirmed and nothing reads the other one any more.
    """
    endings = ("", ".json", ".part", ".part.json")
    kept = {piece.target.name + ending for piece in plan.pieces for ending in endings}
    kept.add(plan.manifest.name)
    ours = re.compile(
        rf"{re.escape(plan.identifier)}(_chunk_\d+)?\.[0-9a-f]{{8}}\.(tar\.gz(\.part)?(\.json)?|set\.json)"
    )
    if not plan.folder.is_dir():
        return ()
    return tuple(sorted(p for p in plan.folder.iterdir() if ours.fullmatch(p.name) and p.name not in kept))


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def _version_of(record: Piece | Snapshot | Chunk, version: str) -> str:
    return f"{record.identifier} has version {version[:8]} instead of {record.version[:8]}"


def _entry(piece: Piece) -> dict[str, Any]:
    return {
        "name": piece.target.name,
        "identifier": piece.identifier,
        "version": piece.version,
        "size_bytes": piece.target.stat().st_size,
    }
