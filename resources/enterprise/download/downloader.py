"""Downloads: request a signed URL, fetch the object, verify it, and rename the complete file into place.

The object store's ETag is not an MD5. The ETag shows only that an object has changed, so files are verified against the
record's `version`.

Source: the service's documentation on snapshot, chunk and batch records (`version`) and their downloads.
"""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from resources import files
from resources.datasets.paths import short
from resources.enterprise import errors
from resources.enterprise.download.archived import Sidecar, is_landed
from resources.enterprise.download.object_reader import (
    ChangedError,
    ObjectReader,
    Progress,
    RangeIgnoredError,
    Source,
    StoredObject,
)
from resources.enterprise.download.partial import Part, Range, Segment, others
from resources.enterprise.http.transport import Transport
from resources.enterprise.models import ArchiveRecord

_log = logging.getLogger(__name__)

#: Number of bytes written between checks of the free disk space.
_LOOK_BYTES = 16 << 20
#: A file whose bytes are wrong is fetched again once.
_ATTEMPTS = 2


@dataclass(frozen=True)
class Download:
    """A verified file on disk.

    `version` differs from the requested version if the service replaced the file. `fetched` is False if the file
    already existed. `resumed_bytes` counts bytes from an earlier download. `unit_count` is the number of requests for
    signed URLs, which each cost a unit if the product has a quota.
    """

    path: Path
    identifier: str
    version: str
    size_bytes: int
    resumed_bytes: int
    fetched: bool
    unit_count: int = 0


class ReplacedError(Exception):
    """The service has replaced files whose versions were pinned. Each argument describes a difference."""


@dataclass
class _Task:
    """A download in progress. The record and the target change if the service replaces the archive."""

    source: Source
    target: Path
    progress: Progress | None
    units: int = 0
    resumed: int | None = None
    largest: int | None = None
    reported: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, part: Part) -> None:
        """Report new bytes. The bytes from an earlier download, which exist at the first call, are not new."""
        with self.lock:
            there = part.total
            before = there if self.reported is None else self.reported
            self.reported = max(there, before)
            if self.progress is not None:
                self.progress(self.reported - before)


class Downloader:
    """Downloads archives. Thread-safe."""

    def __init__(self, transport: Transport) -> None:
        self._transport, self._limits = transport, transport.limits

    def fetch(self, source: Source, target: Path, progress: Progress | None = None) -> Download:
        """Download the archive to `target` and write its sidecar, unless the file exists.

        Replaced archives are handled as in `Hours.download`, which raises the same errors. Raises ReplacedError if the
        service replaced the version that `source` pins.
        """
        task = _Task(source, target, progress)
        failure: errors.EnterpriseError
        try:
            for _ in range(_ATTEMPTS):
                if (done := self._attempt(task)) is not None:
                    return done
            failure = self._mismatch(task.source.record, task.largest)
        except OSError as error:
            name, folder, problem = task.target.name, task.target.parent, error.strerror or type(error).__name__
            failure = errors.StateError(
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
        """Yield the archive's bytes in order, without repetition, for a caller that stores them.

        Raises IntegrityError at the end if the MD5 is different.
        """
        digest = files.new_md5()
        try:
            for piece in ObjectReader(StoredObject(source, self._transport)).pieces():
                if piece:
                    digest.update(piece)
                    yield piece
            problem = None if digest.hexdigest() == source.record.version else "the MD5 is different"
        except ChangedError as error:
            problem = "the archive was replaced during the download"
            if error.largest is not None:
                problem = f"the archive has more than {error.largest:,} bytes"
        if problem is not None:
            raise errors.IntegrityError(
                f"{source.record.identifier} does not match the service's record (version {source.record.version}): "
                f"{problem}. This download cannot be resumed. Discard the output, and try again. If the error "
                "persists, the service's archive is damaged: report the error to the vendor."
            )

    def _attempt(self, task: _Task) -> Download | None:
        """Make one download attempt. Return None if the bytes are wrong; the task then describes the next attempt."""
        source, target = task.source, task.target
        if (present := self._present(task)) is not None:
            return present
        with Part.held(target, wait_seconds=self._limits.wait_seconds) as part:
            if (present := self._present(task)) is not None:  # another process completed the file
                part.remove()
                return present
            digest = self._fill(task, part)
            if digest == source.record.version:
                return self._land(task, part)
            task.resumed = 0
            try:
                fresh = source.read_again()
            except errors.EnterpriseError:
                part.remove()  # its bytes are known to be wrong
                raise
            if fresh.version != source.record.version:
                _log.info("The service replaced %s during its download.", source.record.identifier)
                task.source = replace(source, record=fresh)
                task.target = target.with_name(target.name.replace(short(source.record.version), short(fresh.version)))
                if digest == fresh.version:
                    return self._land(task, part)
                if source.pinned:
                    part.remove()
                    raise ReplacedError(version_change(source.record, fresh.version))
            part.remove()
        return None

    def _fill(self, task: _Task, part: Part) -> str | None:
        """Fetch the missing bytes; return the MD5 of the complete file, or None if the object changed."""
        ranges = self._missing(task.source.record, part)
        if task.resumed is None:
            task.resumed = part.total
        stored = StoredObject(task.source, self._transport, part)
        try:
            try:
                self._fetch(task, stored, part, ranges)
            except RangeIgnoredError:
                part.clear()
                stored.is_stopped.clear()
                self._fetch(task, stored, part, [(part, None)])
            if part.others:
                self._check_room(part, max(other.length for other in part.others))
                part.join()
        except ChangedError as error:
            task.largest = error.largest
            return None
        except errors.NotFound:
            part.remove()  # this download can never be completed
            raise
        finally:
            task.units += stored.unit_count
        return files.md5_of(part.path)

    def _missing(self, record: ArchiveRecord, part: Part) -> list[Range]:
        """Return the ranges to fetch: several for a large file, if the disk has room for joining them."""
        limits, size = self._limits, record.stated_bytes or 0
        if size < limits.ranged_bytes:
            return [(part, None)]
        part.others = others(part.path)
        part.join()  # an earlier call may have been interrupted
        free = shutil.disk_usage(part.path.parent).free - limits.keep_free_bytes
        has_room = size - part.total + size // limits.range_count < free
        return part.divide(size, limits.range_count if has_room else 1, limits.range_bytes)

    def _fetch(self, task: _Task, stored: StoredObject, part: Part, ranges: list[Range]) -> None:
        """Fetch ranges in parallel, as soon as the response for the first range has shown the object's size."""

        def write(segment: Segment, pieces: Iterable[bytes]) -> None:
            looked = segment.length
            for piece in pieces:
                if segment.length - looked >= _LOOK_BYTES:
                    looked = segment.length
                    self._check_room(part, (stored.size or 0) - part.total)
                segment.append(piece)
                task.report(part)

        segments = [segment for segment, _ in ranges]
        readers = [ObjectReader(stored, *one) for one in ranges]
        pieces = [reader.pieces() for reader in readers]
        try:
            next(pieces[0])  # opens the object
            size = stored.size or 0
            self._check_room(part, size - part.total)
            task.report(part)
            if readers[0].stop is None:
                write(segments[0], pieces[0])
                return
            with ThreadPoolExecutor(len(ranges)) as pool:
                try:
                    jobs = [job for job in zip(segments, pieces, strict=True) if job[0].end < size]
                    for future in as_completed([pool.submit(write, *job) for job in jobs]):
                        future.result()
                except BaseException:
                    stored.is_stopped.set()
                    for reader in readers:
                        reader.deadline.cancel()
                    raise
        finally:
            for blocks in pieces:
                blocks.close()
            for other in part.others:
                other.close()

    def _check_room(self, part: Part, missing: int) -> None:
        """Raise an error if the disk has too little space for this many bytes and the reserve."""
        free, floor = shutil.disk_usage(part.path.parent).free, self._limits.keep_free_bytes
        if floor and missing + floor > free:
            raise OSError(
                errno.ENOSPC,
                f"{missing:,} more bytes are needed, but {free:,} are free, and {floor:,} must stay free",
            )
        if missing > free:
            raise OSError(errno.ENOSPC, f"{missing:,} more bytes are needed, but only {free:,} are free")

    def _present(self, task: _Task) -> Download | None:
        """Return the complete file, or None if its bytes are missing or different."""
        record, target = task.source.record, task.target
        if not is_landed(target, record.version):
            if not target.is_file() or files.md5_of(target) != record.version:
                return None
            self._write_sidecar(task, target.stat().st_size)
        size = target.stat().st_size
        return Download(target, record.identifier, record.version, size, 0, fetched=False, unit_count=task.units)

    def _land(self, task: _Task, part: Part) -> Download:
        record, size = task.source.record, part.length
        self._write_sidecar(task, size)
        part.land(task.target)
        _log.info("Fetched %s (%d bytes, %d signed URLs).", record.identifier, size, task.units)
        resumed = task.resumed or 0
        return Download(task.target, record.identifier, record.version, size, resumed, True, task.units)

    def _write_sidecar(self, task: _Task, size: int) -> None:
        record, url_path = task.source.record, task.source.url_path
        Sidecar(record.identifier, record.version, size, url_path, self._transport.clock.local()).write(task.target)

    @staticmethod
    def _mismatch(record: ArchiveRecord, largest: int | None) -> errors.IntegrityError:
        if largest is not None:
            stated = "no size" if record.stated_bytes is None else f"about {record.stated_bytes:,} bytes"
            return errors.IntegrityError(
                f"The service's record of {record.identifier} states {stated}, but two downloads exceeded the limit "
                f"of {largest:,} bytes for such a file. No file was written, and existing files are unchanged. Try "
                "again later. If the error persists, the record or the archive is wrong: report the error to the "
                "vendor."
            )
        return errors.IntegrityError(
            f"Two downloads of {record.identifier} did not match the MD5 in the service's record ({record.version}). "
            "No file was written, and existing files are unchanged. Try again later. If the error persists, the "
            "service's archive is damaged: report the error to the vendor."
        )


def version_change(record: ArchiveRecord, version: str) -> str:
    return f"{record.identifier} has version {short(version)} instead of {short(record.version)}"
