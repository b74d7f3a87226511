"""Downloads: request a signed URL, fetch the object, verify it, and rename the complete file into place.

The object store's ETag is not an MD5. The ETag shows only that an object has changed, so files are verified against the
record's `version`.

Source: the service's documentation on snapshot, chunk and batch records (`version`) and their downloads.
"""

import errno
import logging
import shutil
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class Transfer:
    """The download of an archive, as described by its record. The record changes if the service replaces the archive.

    `resolve` returns a signed URL and the number of requests sent. `read_again` returns the current record. If `pinned`
    is True, newer versions are not requested.
    """

    transport: Transport
    record: ArchiveRecord
    url_path: str
    resolve: Callable[[], tuple[str, int]]
    read_again: Callable[[], ArchiveRecord]
    pinned: bool = False
    _units: int = 0
    _reported: int = 0
    _resumed: int | None = None
    _largest: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, target: Path, progress: Progress | None = None) -> Download:
        """Download the archive to `target` and write its sidecar, unless the file exists. Call this method only once.

        Replaced archives are handled as in `Hours.download`, which raises the same errors. Raises ReplacedError if the
        service replaced a pinned version.
        """
        self._target, self._progress = target, progress
        try:
            for _ in range(_ATTEMPTS):
                if (done := self._attempt()) is not None:
                    return done
        except OSError as error:
            name, folder, problem = self._target.name, self._target.parent, error.strerror or type(error).__name__
            if files.is_full(error):
                raise errors.DiskFull(
                    f"The disk has no space for {name} in {folder} ({problem}). Downloaded bytes are kept in "
                    f"{name}.part. Free up disk space, and try again to resume the download."
                ) from error
            raise errors.StateError(
                f"{name} cannot be written to {folder} ({problem}). Downloaded bytes are kept. Check the folder and "
                "its permissions, and try again."
            ) from error
        if self._largest is not None:
            size = self.record.stated_bytes
            stated = "no size" if size is None else f"about {size:,} bytes"
            raise errors.IntegrityError(
                f"The service's record of {self.record.identifier} states {stated}, but the last of two downloads "
                f"exceeded the limit of {self._largest:,} bytes for such a file. No file was written, and existing "
                "files are unchanged. Try again later. If the error persists, the record or the archive is wrong: "
                "report the error to the vendor."
            )
        raise errors.IntegrityError(
            f"The last of two downloads of {self.record.identifier} did not match the MD5 in the service's record "
            f"({self.record.version}). No file was written, and existing files are unchanged. Try again later. If the "
            "error persists, the service's archive is damaged: report the error to the vendor."
        )

    def pieces(self) -> Generator[bytes, None, None]:
        """Yield the archive's bytes in order, without repetition, for a caller that stores them.

        Raises IntegrityError at the end if the MD5 is different.
        """
        record, digest = self.record, files.new_md5()
        try:
            for piece in ObjectReader(StoredObject(record, self.resolve, self.transport)).pieces():
                if piece:
                    digest.update(piece)
                    yield piece
            problem = None if digest.hexdigest() == record.version else "the MD5 is different"
        except ChangedError as error:
            problem = "the archive was replaced during the download"
            if error.largest is not None:
                problem = f"the archive has more than {error.largest:,} bytes"
        if problem is not None:
            raise errors.IntegrityError(
                f"{record.identifier} does not match the service's record (version {record.version}): {problem}. This "
                "download cannot be resumed. Discard the output, and try again. If the error persists, the service's "
                "archive is damaged: report the error to the vendor."
            )

    def _attempt(self) -> Download | None:
        """Make one download attempt. If the bytes are wrong, return None and prepare the next attempt."""
        if (present := self._present()) is not None:
            return present
        with Part.held(self._target, wait_seconds=self.transport.limits.wait_seconds) as part:
            if (present := self._present()) is not None:  # another process completed the file
                part.clear()
                return present
            digest, old = self._fill(part), self.record
            if digest == old.version:
                return self._land(part)
            self._resumed = 0
            fresh = old
            try:
                fresh = self.read_again()
            finally:
                if digest != fresh.version:
                    part.clear()  # its bytes are known to be wrong
            if fresh.version != old.version:
                _log.info("The service replaced %s during its download.", old.identifier)
                self.record = fresh
                name = self._target.name.replace(short(old.version), short(fresh.version))
                self._target = self._target.with_name(name)
                if digest == fresh.version:
                    return self._land(part)
                if self.pinned:
                    raise ReplacedError(version_change(old, fresh.version))
        return None

    def _fill(self, part: Part) -> str | None:
        """Fetch the missing bytes; return the MD5 of the complete file, or None if the object changed."""
        ranges, self._largest = self._missing(part), None
        if self._resumed is None:
            self._resumed = self._reported = part.total
        stored = StoredObject(self.record, self.resolve, self.transport, part)
        try:
            try:
                self._fetch(stored, part, ranges)
            except RangeIgnoredError:
                part.clear()
                stored.is_stopped.clear()
                self._fetch(stored, part, [(part, None)])
            if part.others:
                self._check_room(part, max(other.length for other in part.others))
                part.join()
        except ChangedError as error:
            self._largest = error.largest
            return None
        except errors.NotFound:
            part.clear()  # this download can never be completed
            raise
        finally:
            self._units += stored.unit_count
        return files.md5_of(part.path)

    def _missing(self, part: Part) -> list[Range]:
        """Return the ranges to fetch: several for a large file, if the disk has room for joining them."""
        limits, size = self.transport.limits, self.record.approximate_bytes
        if size < limits.ranged_bytes:
            return [(part, None)]
        part.others = others(part.path)
        part.join()  # an earlier call may have been interrupted
        free = shutil.disk_usage(part.path.parent).free - limits.keep_free_bytes
        has_room = size - part.total + size // limits.range_count < free
        return part.divide(size, limits.range_count if has_room else 1, limits.range_bytes)

    def _fetch(self, stored: StoredObject, part: Part, ranges: list[Range]) -> None:
        """Fetch ranges in parallel, as soon as the response for the first range has shown the object's size."""

        def write(segment: Segment, pieces: Iterable[bytes]) -> None:
            looked = segment.length
            for piece in pieces:
                if segment.length - looked >= _LOOK_BYTES:
                    looked = segment.length
                    self._check_room(part, (stored.size or 0) - part.total)
                segment.append(piece)
                self._report(part)

        segments = [segment for segment, _ in ranges]
        readers = [ObjectReader(stored, *one) for one in ranges]
        pieces = [reader.pieces() for reader in readers]
        try:
            next(pieces[0])  # opens the object
            size = stored.size or 0
            self._check_room(part, size - part.total)
            self._report(part)
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

    def _report(self, part: Part) -> None:
        """Report new bytes. Bytes from an earlier download, and bytes that were reported before, are not new."""
        with self._lock:
            count = max(part.total - self._reported, 0)
            self._reported += count
            if self._progress is not None:
                self._progress(count)

    def _check_room(self, part: Part, missing: int) -> None:
        """Raise an error if the disk has too little space for this many bytes and the reserve."""
        free, floor = shutil.disk_usage(part.path.parent).free, self.transport.limits.keep_free_bytes
        if floor and missing + floor > free:
            raise OSError(
                errno.ENOSPC,
                f"{missing:,} more bytes are needed, but {free:,} are free, and {floor:,} must stay free",
            )
        if missing > free:
            raise OSError(errno.ENOSPC, f"{missing:,} more bytes are needed, but only {free:,} are free")

    def _present(self) -> Download | None:
        """Return the complete file, or None if its bytes are missing or different."""
        target, version = self._target, self.record.version
        if not is_landed(target, version):
            if not target.is_file() or files.md5_of(target) != version:
                return None
            self._write_sidecar(target.stat().st_size)
        size = target.stat().st_size
        return Download(target, self.record.identifier, version, size, 0, fetched=False, unit_count=self._units)

    def _land(self, part: Part) -> Download:
        name, version, size = self.record.identifier, self.record.version, part.length
        self._write_sidecar(size)
        part.land(self._target)
        _log.info("Fetched %s (%d bytes, %d signed URLs).", name, size, self._units)
        return Download(self._target, name, version, size, self._resumed or 0, fetched=True, unit_count=self._units)

    def _write_sidecar(self, size: int) -> None:
        now, record = self.transport.clock.local(), self.record
        Sidecar(record.identifier, record.version, size, self.url_path, now).write(self._target)


def version_change(record: ArchiveRecord, version: str) -> str:
    return f"{record.identifier} has version {short(version)} instead of {short(record.version)}"
