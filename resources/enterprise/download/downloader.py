"""Downloads: request a signed URL, fetch from the object store, verify, and move into place completely or not at all.

The ETag of the object store is not the MD5 of the object, so it only serves to notice that the object changed; the
bytes are checked against the `version` of the record.

Source: the service's description of snapshot, chunk and batch records (`version`) and their downloads.
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

_log = logging.getLogger(__name__)

#: Wrong bytes are fetched again once.
_WRONG_ALLOWED = 1


@dataclass(frozen=True)
class Download:
    """A file that is there, verified.

    `version` differs from the one asked for when the service replaced the file meanwhile; `fetched` is False when the
    file was there and nothing was requested.

    Attributes:
        request_count: Requests to the service (those to the object store are not counted).
        resumed_bytes: Bytes that an earlier, unfinished download had left and that were not fetched again.
        unit_count: Requests for signed URLs: what the account's quota was charged, where the product has one.
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
    """The service replaced an archive of which only the pinned version is wanted, by `version`. Nothing was landed."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.version = version


@dataclass
class _Task:
    """A download while it is done: its record and target may change, when the service replaces the archive."""

    source: Source
    target: Path
    requests: int = 0
    units: int = 0
    resumed: int | None = None
    wrong: int = 0
    largest: int | None = None


class _Gain:
    """Reports to progress how many bytes came: each byte of the file once, however often it is fetched."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._most: int | None = None

    def __call__(self, there: int) -> None:
        if self._progress is None:
            return
        before = there if self._most is None else self._most  # the first time: what an earlier download left
        self._most = max(there, before)
        self._progress(self._most - before)


class Downloader:
    """Fetches archives. One instance may serve several threads."""

    def __init__(self, transport: Transport, ranges: Ranges, clock: Callable[[], datetime]) -> None:
        self._transport = transport
        self._ranges = ranges
        self._clock = clock

    def fetch(self, source: Source, target: Path, progress: Progress | None = None) -> Download:
        """Have the archive at `target`, with its sidecar.

        If the service replaced the archive meanwhile, the new version is downloaded. If the name of `target` holds the
        first eight characters of the old version, those of the new version replace them.

        Raises:
            IntegrityError: The bytes differ from the record's version twice; nothing was landed.
            DiskFull: No room; what was fetched is kept.
            ServiceUnavailable: The connection broke too often; what was fetched is kept.
            UnexpectedAnswer: The answer is no redirect.
            ReplacedError: The service has another version now than the one `source` pins, and sent neither.
        """
        task, gain = _Task(source, target), _Gain(progress)
        try:
            while True:
                if (done := self._attempt(task, gain)) is not None:
                    return done
        except OSError as error:
            failure = self._disk_error(error, task.target)
        raise failure

    def pieces(self, source: Source) -> Generator[bytes, None, None]:
        """The bytes of the archive in order, for whoever keeps them; see `SequentialTransfer.pieces`."""
        return SequentialTransfer(source, self._transport, self._ranges).pieces()

    def _attempt(self, task: _Task, gain: _Gain) -> Download | None:
        """Bring the archive once; None: what came is wrong, and the task says what to fetch now."""
        source, target = task.source, task.target
        if not Part.is_left(target) and (present := self._present(source, target)) is not None:
            return replace(present, request_count=task.requests, unit_count=task.units)
        with Part.held(target, wait_seconds=self._ranges.wait_seconds) as part:
            if (present := self._present(source, target)) is not None:
                part.remove()  # fetched by whom we waited for, or its owner was killed while tidying up
                return replace(present, request_count=task.requests, unit_count=task.units)
            if part.version != source.version:
                part.clear()
            if task.resumed is None:
                task.resumed = part.done
            digest = self._fill(task, part, gain)
            if digest == source.version:
                return self._land(task, part)
            task.resumed = 0
            fresh, count = self._again(source, part)
            task.requests += count
            if fresh.version != source.version:
                _log.info("%s was replaced at the service while it was fetched.", source.identifier)
                task.source = fresh
                task.target = target.with_name(target.name.replace(short(source.version), short(fresh.version)))
                if digest == fresh.version:
                    return self._land(task, part)
                if source.pinned:
                    part.remove()
                    raise ReplacedError(fresh.version)
            part.remove()
        task.wrong += 1
        if task.wrong > _WRONG_ALLOWED:
            self._give_up(source, task.largest)
        return None

    def _fill(self, task: _Task, part: Part, gain: _Gain) -> str | None:
        """Fetch the missing bytes; return the MD5 of the complete file, or None if the object changed meanwhile."""
        transfer = Transfer(task.source, part, self._transport, self._ranges, gain)
        try:
            transfer.run()
        except ChangedError as error:
            task.largest = error.largest if isinstance(error, OversizeError) else None
            return None
        except errors.NotFound:
            part.remove()  # nothing will ever complete it
            raise
        finally:
            task.requests += transfer.request_count
            task.units += transfer.request_count
        return part.digest()

    def _present(self, source: Source, target: Path) -> Download | None:
        if not is_landed(target, source.version):
            if not target.is_file() or files.md5_of(target) != source.version:
                return None  # not there, or not these bytes: fetched, and then replaced as a whole
            self._sidecar(source, target.stat().st_size).write(target)
        size = target.stat().st_size
        return Download(target, source.identifier, source.version, size, 0, 0, fetched=False)

    def _land(self, task: _Task, part: Part) -> Download:
        source, target, size = task.source, task.target, part.length()
        self._sidecar(source, size).write(target)
        part.land(target)
        _log.info("Fetched %s: %d bytes, %d request(s) to the service.", source.identifier, size, task.requests)
        return Download(
            path=target,
            identifier=source.identifier,
            version=source.version,
            size_bytes=size,
            request_count=task.requests,
            resumed_bytes=task.resumed or 0,
            fetched=True,
            unit_count=task.units,
        )

    def _sidecar(self, source: Source, size: int) -> Sidecar:
        return Sidecar(source.identifier, source.version, size, source.url_path, self._clock())

    @staticmethod
    def _again(source: Source, part: Part) -> tuple[Source, int]:
        try:
            return source.read_again()
        except errors.EnterpriseError:
            part.remove()  # known to be wrong
            raise

    @staticmethod
    def _give_up(source: Source, largest: int | None) -> NoReturn:
        if largest is not None:
            stated = "no size" if source.size_hint is None else f"about {source.size_hint:,} bytes"
            raise errors.IntegrityError(
                f"The service's record of {source.identifier} states {stated}, and twice more than {largest:,} bytes "
                "came, which is more than is taken of such a file. Nothing was landed, nothing that was there was "
                "touched. Run this again later; if it stays so, the record or the archive is wrong: tell the vendor."
            )
        raise errors.IntegrityError(
            f"{source.identifier} was fetched twice, and both times its bytes were not those the service's record "
            f"names (MD5 {source.version}). Nothing was landed, nothing that was there was touched. Run this again "
            "later; if it stays so, the service's archive is damaged: tell the vendor."
        )

    @staticmethod
    def _disk_error(error: OSError, target: Path) -> errors.EnterpriseError:
        problem = error.strerror or type(error).__name__
        if files.is_full(error):
            return errors.DiskFull(
                f"There is no room for {target.name} in {target.parent} ({problem}). What was fetched of it is kept in "
                f"{target.name}.part. Make room and run this again: it goes on from there."
            )
        return errors.StateError(
            f"{target.name} cannot be written in {target.parent} ({problem}). What was fetched of it is kept. Check "
            "the folder and its permissions and run this again."
        )
