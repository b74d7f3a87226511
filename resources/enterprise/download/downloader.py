"""Downloads: request a signed URL, fetch the object, verify it, and rename the complete file into place.

The object store's ETag is not an MD5. The ETag shows only that an object has changed, so files are verified against the
record's `version`.

Source: the service's documentation on snapshot, chunk and batch records (`version`) and their downloads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from resources import files
from resources.datasets.paths import short
from resources.enterprise import errors
from resources.enterprise.download.archived import Part, Sidecar, is_landed
from resources.enterprise.download.object_reader import ChangedError, OversizeError, Progress, Ranges, Source
from resources.enterprise.download.transfer import SequentialTransfer, Transfer
from resources.enterprise.http.transport import Transport
from resources.enterprise.models import ArchiveRecord

_log = logging.getLogger(__name__)

#: Maximum number of times that a corrupt file is fetched again.
_WRONG_ALLOWED = 1


@dataclass(frozen=True)
class Download:
    """A verified file on disk.

    `version` differs from the requested version if the service replaced the file. `fetched` is False if the file
    already existed. `request_count` excludes requests to the object store. `resumed_bytes` counts bytes from an earlier
    download. `unit_count` is the number of requests for signed URLs, which each cost a unit if the product has a quota.
    """

    path: Path
    identifier: str
    version: str
    size_bytes: int
    request_count: int
    resumed_bytes: int
    fetched: bool
    unit_count: int = 0


class ReplacedError(Exception):
    """The service replaced an archive whose version was pinned. `version` is the new version. No file was written."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.version = version


@dataclass
class _Task:
    """A download in progress. The record and the target change if the service replaces the archive."""

    source: Source
    target: Path
    requests: int = 0
    units: int = 0
    resumed: int | None = None
    wrong: int = 0
    largest: int | None = None


class _Gain:
    """Reports a file's growth to a progress callback. Each byte is counted once, even if it is fetched repeatedly."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._most: int | None = None

    def __call__(self, there: int) -> None:
        if self._progress is None:
            return
        # bytes from an earlier download, which are passed to the first call, are not reported
        before = there if self._most is None else self._most
        self._most = max(there, before)
        self._progress(self._most - before)


class Downloader:
    """Downloads archives. Thread-safe."""

    def __init__(self, transport: Transport, ranges: Ranges, clock: Callable[[], datetime]) -> None:
        self._transport = transport
        self._ranges = ranges
        self._clock = clock

    def fetch(self, source: Source, target: Path, progress: Progress | None = None) -> Download:
        """Download the archive to `target` and write its sidecar, unless the file exists.

        If the service replaced the archive, the new version is downloaded. If the name of `target` contains the first
        eight characters of the old version, the new version's characters replace them.

        Raises:
            IntegrityError: Two attempts returned bytes that do not match the record's version. No file was written.
            ReplacedError: The service replaced the version that `source` pins. Neither version was downloaded.
            EnterpriseError: The download failed. Downloaded bytes are retained.
        """
        task, gain = _Task(source, target), _Gain(progress)
        try:
            while True:
                if (done := self._attempt(task, gain)) is not None:
                    return done
        except OSError as error:
            name, folder, problem = task.target.name, task.target.parent, error.strerror or type(error).__name__
            failure: errors.EnterpriseError = errors.StateError(
                f"{name} cannot be written to {folder} ({problem}). Downloaded bytes are kept. Check the folder and "
                "its permissions, and try again."
            )
            if files.is_full(error):
                failure = errors.DiskFull(
                    f"The disk has no space for {name} in {folder} ({problem}). Downloaded bytes are kept in "
                    f"{name}.part. Free up disk space, and try again to resume the download."
                )
        raise failure

    def pieces(self, source: Source) -> Generator[bytes, None, None]:
        """Yield the archive's bytes in order, for a caller that stores them. See `SequentialTransfer.pieces`."""
        return SequentialTransfer(source, self._transport, self._ranges).pieces()

    def _attempt(self, task: _Task, gain: _Gain) -> Download | None:
        """Make one download attempt. Return None if the bytes are wrong; the task then describes the next attempt."""
        source, target = task.source, task.target
        if not Part.is_left(target) and (present := self._present(task)) is not None:
            return present
        with Part.held(target, wait_seconds=self._ranges.wait_seconds) as part:
            if (present := self._present(task)) is not None:
                part.remove()  # another process completed the file, or was killed during its cleanup
                return present
            if part.version != source.record.version:
                part.clear()
            if task.resumed is None:
                task.resumed = part.done
            digest = self._fill(task, part, gain)
            if digest == source.record.version:
                return self._land(task, part)
            task.resumed = 0
            try:
                fresh, count = source.read_again()
            except errors.EnterpriseError:
                part.remove()  # its bytes are known to be wrong
                raise
            task.requests += count
            if fresh.version != source.record.version:
                _log.info("The service replaced %s during its download.", source.record.identifier)
                task.source = replace(source, record=fresh)
                task.target = target.with_name(target.name.replace(short(source.record.version), short(fresh.version)))
                if digest == fresh.version:
                    return self._land(task, part)
                if source.pinned:
                    part.remove()
                    raise ReplacedError(fresh.version)
            part.remove()
        task.wrong += 1
        if task.wrong > _WRONG_ALLOWED:
            self._give_up(source.record, task.largest)
        return None

    def _fill(self, task: _Task, part: Part, gain: _Gain) -> str | None:
        """Fetch the missing bytes; return the MD5 of the complete file, or None if the object changed."""
        transfer = Transfer(task.source, part, self._transport, self._ranges, gain)
        try:
            transfer.run()
        except ChangedError as error:
            task.largest = error.largest if isinstance(error, OversizeError) else None
            return None
        except errors.NotFound:
            part.remove()  # this download can never be completed
            raise
        finally:
            task.requests += transfer.request_count
            task.units += transfer.request_count
        return files.md5_of(part.path)

    def _present(self, task: _Task) -> Download | None:
        """Return the complete file, or None if its bytes are missing or different."""
        source, target = task.source, task.target
        if not is_landed(target, source.record.version):
            if not target.is_file() or files.md5_of(target) != source.record.version:
                return None
            self._write_sidecar(task, target.stat().st_size)
        return self._result(task, target.stat().st_size, fetched=False)

    def _land(self, task: _Task, part: Part) -> Download:
        size = part.length()
        self._write_sidecar(task, size)
        part.land(task.target)
        _log.info(
            "Fetched %s (%d bytes, %d requests to the service).", task.source.record.identifier, size, task.requests
        )
        return self._result(task, size, fetched=True)

    @staticmethod
    def _result(task: _Task, size: int, *, fetched: bool) -> Download:
        record, resumed = task.source.record, task.resumed if fetched else 0
        return Download(
            task.target, record.identifier, record.version, size, task.requests, resumed or 0, fetched, task.units
        )

    def _write_sidecar(self, task: _Task, size: int) -> None:
        record, url_path = task.source.record, task.source.url_path
        Sidecar(record.identifier, record.version, size, url_path, self._clock()).write(task.target)

    @staticmethod
    def _give_up(record: ArchiveRecord, largest: int | None) -> NoReturn:
        if largest is not None:
            stated = "no size" if record.stated_bytes is None else f"about {record.stated_bytes:,} bytes"
            raise errors.IntegrityError(
                f"The service's record of {record.identifier} states {stated}, but two downloads exceeded the limit "
                f"of {largest:,} bytes for such a file. No file was written, and existing files are unchanged. Try "
                "again later. If the error persists, the record or the archive is wrong: report the error to the "
                "vendor."
            )
        raise errors.IntegrityError(
            f"Two downloads of {record.identifier} did not match the MD5 in the service's record ({record.version}). "
            "No file was written, and existing files are unchanged. Try again later. If the error persists, the "
            "service's archive is damaged: report the error to the vendor."
        )
