"""Archive files: complete files with sidecars, batch listings, snapshot manifests, and partial files.

A sidecar is written before its file is renamed to its final name, so every complete file has a sidecar. A manifest
(`IDENTIFIER.VERSION.set.json`) lists a snapshot's files. The manifest is written when all the files are complete.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from resources import files
from resources.enterprise import errors
from resources.enterprise.listing import Listing, list_of, sorted_out
from resources.enterprise.models import Batch, Identifier, Snapshot, Version

_BATCHES: Final = list_of(Batch)
_SIDECAR_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Sidecar:
    """Metadata of an archived file. `version` is the file's MD5. `url_path` is never a signed URL."""

    identifier: str
    version: str
    size_bytes: int
    url_path: str
    fetched_at: datetime

    @staticmethod
    def path(target: files.StrPath) -> Path:
        target = Path(target)
        return target.with_name(target.name + ".json")

    @classmethod
    def read(cls, target: files.StrPath) -> Sidecar | None:
        """Return a file's sidecar, or None if the sidecar is missing or unreadable."""
        try:
            return files.read_json(cls.path(target), _SIDECAR, most=_SIDECAR_BYTES)
        except (FileNotFoundError, NotADirectoryError, files.UnusableFileError):
            return None

    def write(self, target: files.StrPath) -> None:
        text = json.dumps(asdict(self) | {"fetched_at": self.fetched_at.isoformat()}, indent=2, ensure_ascii=False)
        files.write(self.path(target), text.encode() + b"\n")


_SIDECAR: Final = TypeAdapter(Sidecar)


def read_listing(path: files.StrPath) -> Listing[Batch]:
    """Return a stored batch listing. Raises FileNotFoundError, or IntegrityError if the file is not a batch listing.

    If there is no sidecar for this version, `fetched_at` is the file's modification time.
    """
    path = Path(path)
    try:
        raw = files.read(path)
        records, odd = sorted_out(_BATCHES.validate_json(raw))
    except (ValidationError, files.UnusableFileError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.what
        wrong = errors.IntegrityError(
            f"{path} is not a batch listing ({why}). Nothing was changed. Remove the file, and fetch the hour again "
            "while the service retains the hour. Complete archives are not fetched again."
        )
        raise wrong from None
    sidecar = Sidecar.read(path)
    if sidecar is None or sidecar.version != files.md5(raw):
        return Listing(raw, records, "", datetime.fromtimestamp(path.stat().st_mtime, UTC), 0, odd)
    return Listing(raw, records, sidecar.url_path, sidecar.fetched_at, 0, odd)


def is_landed(target: files.StrPath, version: str) -> bool:
    """Return whether the complete file exists in this version, according to its sidecar and size."""
    sidecar = Sidecar.read(target)
    if sidecar is None or sidecar.version != version:
        return False
    try:
        return Path(target).stat().st_size == sidecar.size_bytes
    except FileNotFoundError:
        return False


class SetFile(BaseModel):
    """A file in a set: its name in the manifest's folder, the identifier of its snapshot or chunk, and its MD5."""

    name: Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=255)]
    identifier: Identifier
    version: Version


class SnapshotSet(BaseModel):
    """A completely fetched, consistent snapshot. Some of its files may have been removed since then."""

    snapshot: Snapshot
    files: tuple[SetFile, ...]


_SET: Final = TypeAdapter(SnapshotSet)


def read_set(path: files.StrPath) -> SnapshotSet:
    """Return the set that a manifest describes. Raises FileNotFoundError, or IntegrityError for a damaged manifest."""
    try:
        return files.read_json(Path(path), _SET)
    except files.UnusableFileError as error:
        wrong = errors.IntegrityError(
            f"{path} is not a snapshot manifest ({error.what.rstrip('.')}). Nothing was changed. Remove the file, and "
            "fetch the snapshot again. Complete files are not fetched again."
        )
        raise wrong from None


#: Number of digits reserved for a byte count, which is enough for files of any size.
_WIDTH = 16


@dataclass
class Segment:
    """A range [start, end) of the file. The first `done` bytes are complete. `end` is None if unknown."""

    start: int
    end: int | None
    done: int = 0

    @property
    def position(self) -> int:
        return self.start + self.done

    @property
    def remaining(self) -> int | None:
        """Number of missing bytes, or None if the end is unknown."""
        return None if self.end is None else self.end - self.position


@dataclass
class ObjectState:
    """State of an object during its download, with its segments and, if known, its ETag and size."""

    etag: str | None = None
    size: int | None = None
    segments: list[Segment] = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(segment.done for segment in self.segments)


class _Stored(BaseModel):
    """A partial file's record on disk. Each range contains its start, its end and the number of complete bytes."""

    version: str
    etag: str | None = None
    size: Annotated[int, Field(lt=10**_WIDTH)] | None = None
    ranges: list[tuple[NonNegativeInt, NonNegativeInt | None, NonNegativeInt]]


_STORED: Final = TypeAdapter(_Stored)


class Part(ObjectState):
    """A download's partial file, owned by one thread.

    A process may be killed at any time. After each block of data, the progress is therefore written in place to a JSON
    file of constant length. After a power failure, the recorded progress may exceed the stored data. The MD5 check of
    the complete file detects this error.
    """

    def __init__(self, target: Path, descriptor: int) -> None:
        super().__init__()
        self._target = target
        self.path = _part(target)
        self._json = _part_json(target)
        self._descriptor = descriptor
        self._progress: int | None = None
        self._ended = False
        self.version: str | None = None
        self._load()

    @classmethod
    @contextlib.contextmanager
    def held(cls, target: Path, *, wait_seconds: float) -> Iterator[Part]:
        """Open or create the partial file. First wait while another process is downloading it. Raises BusyError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with files.held(_part(target), wait_seconds=wait_seconds) as descriptor:
            part = cls(target, descriptor)
            try:
                yield part
            finally:
                part._close()
                if not part._ended and not part.done:
                    part.remove()

    @staticmethod
    def is_left(target: Path) -> bool:
        return _part(target).exists() or _part_json(target).exists()

    @staticmethod
    def left_bytes(target: Path, version: str) -> int:
        """Return the size of this version's unfinished download, without waiting for its writer."""
        found = _stored(target)
        return 0 if found is None or found.version != version else sum(done for _, _, done in found.ranges)

    @property
    def is_complete(self) -> bool:
        return self.size is not None and bool(self.segments) and all(s.remaining == 0 for s in self.segments)

    def begin(self, version: str, etag: str | None, size: int | None, segments: Sequence[Segment]) -> None:
        """Record the object and its segments. Data that the segments already contain is retained."""
        self._close()
        self.version, self.etag, self.size = version, etag, size
        self.segments = list(segments)
        files.write(self._json, self._record(), durable=False)
        self._progress = os.open(self._json, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, number: int, data: bytes) -> None:
        """Append data to a segment. Different threads can write to different segments."""
        segment = self.segments[number]
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, segment.position)
            view = view[written:]
            segment.done += written
        if self._progress is not None:
            os.pwrite(self._progress, self._record(), 0)

    def clear(self) -> None:
        """Delete all downloaded bytes and start over."""
        self._close()
        self._json.unlink(missing_ok=True)
        os.ftruncate(self._descriptor, 0)
        self.version = self.etag = self.size = None
        self.segments = []

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def land(self, target: Path) -> None:
        """Durably rename the file to its final name."""
        files.put(self.path, target)
        self._end()

    def remove(self) -> None:
        self._end()
        self.path.unlink(missing_ok=True)

    def _end(self) -> None:
        self._ended = True
        self._close()
        self._json.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._progress is not None:
            os.close(self._progress)
        self._progress = None

    def _record(self) -> bytes:
        """Return the content of the JSON file. The length does not change while the segments grow."""
        head = json.dumps({"version": self.version, "etag": self.etag, "size": self.size}).removesuffix("}")
        ranges = [f"[{one.start}, {json.dumps(one.end)}, {one.done:>{_WIDTH}}]" for one in self.segments]
        return f'{head}, "ranges": [{", ".join(ranges)}]}}\n'.encode()

    def _load(self) -> None:
        """Load the state that an earlier process stored, if that state is consistent."""
        found = _stored(self._target)
        segments = [] if found is None else [Segment(*one) for one in found.ranges]
        if found is None or not self._makes_sense(segments, found.size):
            self.clear()
        else:
            self.version, self.etag, self.size, self.segments = found.version, found.etag, found.size, segments

    def _makes_sense(self, segments: list[Segment], size: int | None) -> bool:
        """Return whether the segments cover the file without gaps and their completed bytes exist."""
        position: int | None = 0
        for segment in segments:
            if segment.start != position or (segment.remaining or 0) < 0:
                return False
            position = segment.end
        there = self.length()
        return bool(segments) and position == size and all(one.position <= there for one in segments if one.done)


def _stored(target: Path) -> _Stored | None:
    """Return the stored progress of a download, or None if there is none or its file is damaged."""
    try:
        return files.read_json(_part_json(target), _STORED)
    except (FileNotFoundError, NotADirectoryError, files.UnusableFileError):
        return None


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _part_json(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


def divide(segments: Sequence[Segment], pieces: int, smallest: int) -> list[Segment]:
    """Divide the missing bytes into about `pieces` segments of at least `smallest` bytes. Return all segments."""
    there: list[Segment] = []
    missing: list[Segment] = []
    for segment in segments:
        if segment.done:
            there.append(Segment(segment.start, segment.position, segment.done))
        if segment.end is None or segment.position < segment.end:
            missing.append(Segment(segment.position, segment.end))
    while missing and len(missing) < pieces:
        widest = max(missing, key=lambda s: s.remaining or 0)
        if widest.end is None or (widest.remaining or 0) < 2 * smallest:
            break
        middle = (widest.start + widest.end) // 2
        missing.append(Segment(middle, widest.end))
        widest.end = middle
    return sorted([*there, *missing], key=lambda s: s.start)
