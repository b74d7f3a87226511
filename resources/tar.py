"""Reader of the tar inside a gzip file, once and in order, in memory that does not depend on sizes in its headers.

Single headers are parsed by the standard library. Its tar readers load extended headers of any size into memory, parse
them in quadratic time (before Python 3.11.10), and treat an invalid size as 0; so these are parsed here.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from isal import isal_zlib

from resources.formatting import legible

#: Maximum total size of the extended headers and long names of one member. Real paths have some hundred bytes.
HEADER_BYTES_MAX = 1 << 20
#: Maximum length of a member's name in messages and in `rejects`, without the digest added to a shortened name.
NAME_MAX = 200
#: Suffix of members that hold records, in any case.
RECORDS = ".ndjson"
_SECTOR = 512
_ZEROS = bytes(_SECTOR)
_SKIP_BYTES = 1 << 17
_SIZE_MAX = 2**63 - 1
_NAMED = 5
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTENDED = (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILES = tuple(kind for kind in tarfile.REGULAR_TYPES if kind != tarfile.GNUTYPE_SPARSE)
# IsalError is an exception class, but is declared as an instance
_DAMAGED = (EOFError, OSError, zlib.error, cast("type[Exception]", isal_zlib.IsalError))


class Failure(Protocol):
    """Creates the error for damage from its description and place (the member, and the offset in it or in the tar)."""

    def __call__(self, what: str, *, member: str | None, offset: int) -> Exception: ...


@dataclass
class Contents:
    """Contents of an archive: bytes of records, and other members.

    `goes_on`: there were members after the end of the tar.
    """

    ndjson_bytes: int = 0
    other_count: int = 0
    other_bytes: int = 0
    others: list[str] = field(default_factory=list)
    goes_on: bool = False

    def pass_over(self, name: str, size: int) -> None:
        """Count a member that holds no records."""
        self.other_count += 1
        self.other_bytes += size
        if len(self.others) < _NAMED:
            self.others.append(name)

    @property
    def named(self) -> str:
        """Names of the first members without records."""
        return ", ".join(self.others) + (" and more" if self.other_count > len(self.others) else "")

    def remarks(self) -> list[str]:
        """Return unusual findings, one sentence each."""
        told = []
        if self.other_bytes:
            told.append(
                f"Not read, because only members named *{RECORDS} hold records: {self.named} "
                f"({self.other_count:,} members, {self.other_bytes:,} bytes)."
            )
        if self.goes_on:
            told.append("Members follow the end of the tar; they were read like those before it.")
        return told


class TarStream:
    """The bytes of a tar, read in order, with the position of every failure.

    Args:
        readinto: Decompresses into a buffer; returns the number of bytes, 0 at the end.
        failure: Creates the errors.
    """

    def __init__(self, readinto: Callable[[memoryview], int], failure: Failure) -> None:
        self.member: str | None = None
        self.position = 0
        self._member_start = 0
        self._readinto = readinto
        self._failure = failure

    def error(self, what: str) -> Exception:
        offset = self.position - self._member_start if self.member is not None else self.position
        return self._failure(what, member=self.member, offset=offset)

    def enter(self, member: str | None) -> None:
        """Attribute the following bytes to `member`."""
        self.member = member
        self._member_start = self.position

    def some(self, target: memoryview) -> int:
        """Read the bytes of one call; return their number, 0 at the end of the stream."""
        try:
            count = self._readinto(target)
        except _DAMAGED as error:
            raise self.error(f"the gzip data is damaged or cut off: {error}") from error
        self.position += count
        return count

    def fill(self, target: memoryview) -> int:
        """Read until `target` is full or the stream ends; return the number of bytes read."""
        done = 0
        while done < len(target) and (count := self.some(target[done:])):
            done += count
        return done

    def exactly(self, target: memoryview) -> None:
        if self.fill(target) < len(target):
            raise self.error("the tar ends too early")

    def take(self, count: int) -> bytes:
        data = bytearray(count)
        self.exactly(memoryview(data))
        return bytes(data)

    def sector(self) -> bytes:
        """Return the next 512 bytes; fewer, or none, at the end of the stream."""
        data = bytearray(_SECTOR)
        return bytes(data[: self.fill(memoryview(data))])

    def skip(self, count: int) -> None:
        scratch = memoryview(bytearray(min(count, _SKIP_BYTES)))
        while count:
            step = min(count, len(scratch))
            self.exactly(scratch[:step])
            count -= step


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in the tar: its name for display, its size in bytes, and whether it should hold records."""

    name: str
    size: int
    holds_records: bool


def members(stream: TarStream, contents: Contents) -> Iterator[Member]:
    """Yield the regular files. Each must be read completely before the next is requested.

    Two blocks of zeros end a tar. Reading continues after any number of them: only zeros or further members may follow;
    anything else is damage.

    Raises:
        Exception: The error of the stream's `failure`: the tar is damaged, cut off, or has no members.
    """
    extended: dict[str, bytes] = {}
    found = header_bytes = zeros = 0
    while header := stream.sector():
        if header == _ZEROS[: len(header)]:
            zeros += 1
            continue
        if len(header) < _SECTOR:
            raise stream.error("something follows the end of the tar" if zeros else "the tar ends too early")
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            what = "something that is no tar follows its end" if zeros else "the tar is damaged"
            raise stream.error(f"{what}: {error}") from error
        contents.goes_on |= bool(zeros and found)
        zeros = 0
        if info.type in _EXTENDED:
            header_bytes += _SECTOR + _size(stream, info.size)
            if header_bytes > HEADER_BYTES_MAX:
                raise stream.error(f"the tar is damaged: the headers before a member exceed {HEADER_BYTES_MAX:,} bytes")
            payload = stream.take(info.size)
            stream.skip(-info.size % _SECTOR)
            if info.type == tarfile.GNUTYPE_LONGNAME:
                extended["path"] = payload.partition(b"\0")[0]
            elif info.type in _PAX:
                extended.update(_pax(stream, payload))
            continue
        found += 1
        path = extended["path"].decode("utf-8", "surrogateescape") if "path" in extended else info.name
        name = _shown(path)
        size = _size(stream, extended.get("size", info.size))
        if info.type == tarfile.GNUTYPE_SPARSE or "sparse" in extended:
            raise stream.error(f"the member {name} is stored as a sparse file, which is not read")
        extended, header_bytes = {}, 0
        # according to POSIX, a member of an unknown kind is a file; links, folders and devices have no data
        if info.type in _FILES or info.type not in tarfile.SUPPORTED_TYPES:
            stream.enter(name)
            yield Member(name, size, path.lower().endswith(RECORDS))
            stream.enter(None)
            stream.skip(-size % _SECTOR)
    if extended or header_bytes or not (zeros or found):
        raise stream.error("the tar ends too early")
    if not found:
        raise stream.error("it holds no member at all")
    if not zeros:
        raise stream.error("the tar ends too early")


def _size(stream: TarStream, stated: int | bytes) -> int:
    """Return the size in bytes from a header."""
    if isinstance(stated, bytes):
        stated = int(stated) if stated.isdigit() and len(stated) <= len(str(_SIZE_MAX)) else -1
    if not 0 <= stated <= _SIZE_MAX:
        raise stream.error("the tar is damaged: a header gives a size that no member can have")
    return stated


def _pax(stream: TarStream, payload: bytes) -> dict[str, bytes]:
    """Return the relevant fields of an extended header: the path, the size, and whether the member is sparse."""
    fields: dict[str, bytes] = {}
    payload, place = payload.rstrip(b"\0"), 0
    while place < len(payload):
        blank = payload.find(b" ", place, place + len(str(HEADER_BYTES_MAX)) + 1)
        length = payload[place:blank]
        end = place + int(length) if blank > 0 and length.isdigit() else place
        if not place <= blank < end <= len(payload) or payload[end - 1] != ord("\n"):
            raise stream.error("the tar is damaged: an extended header cannot be read")
        key, _, value = payload[blank + 1 : end - 1].partition(b"=")
        if key in (b"path", b"size"):
            fields[key.decode()] = value
        elif key.startswith(b"GNU.sparse."):
            fields["sparse"] = value
        place = end
    return fields


def _shown(name: str) -> str:
    """Return a member's name for messages and rejects; a modified name remains unique."""
    shown = legible(name, NAME_MAX)
    if shown == name:
        return name
    return f"{shown} ({hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]})"
