"""Sequential reader for the tar file inside a gzip file. Memory use does not depend on sizes in the headers.

The standard library parses single headers. This module parses extended headers itself, because the library's readers
load extended headers of any size into memory, parse them in quadratic time (before Python 3.11.10), and treat invalid
sizes as 0.
"""

import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from isal import isal_zlib

from resources.formatting import legible

#: Maximum total size of one member's extended headers and long names. Real paths have a few hundred bytes.
HEADER_BYTES_MAX = 1 << 20
#: Maximum length of a member's name in messages and in `rejects`. Shortened names are followed by a digest.
NAME_MAX = 200
#: Suffix of members that contain records. Case is ignored.
_RECORDS = ".ndjson"
_SECTOR = 512
_ZEROS = bytes(_SECTOR)
_SKIP_BYTES = 1 << 17
_SIZE_MAX = 2**63 - 1
_NAMED = 5
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTENDED = (*_PAX, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_FILES = tuple(kind for kind in tarfile.REGULAR_TYPES if kind != tarfile.GNUTYPE_SPARSE)
#: Errors that isal raises for damaged gzip data. IsalError is an exception class, but its declared type is an instance.
DAMAGED = (EOFError, OSError, zlib.error, cast("type[Exception]", isal_zlib.IsalError))


@dataclass
class Contents:
    """Summary of an archive's contents: the number of record bytes, and the members without records.

    `goes_on` is True if members followed the tar's end-of-archive marker.
    """

    ndjson_bytes: int = 0
    other_count: int = 0
    other_bytes: int = 0
    others: list[str] = field(default_factory=list)
    goes_on: bool = False

    @property
    def named(self) -> str:
        """Names of the first members without records."""
        return ", ".join(self.others) + (" and more" if self.other_count > len(self.others) else "")

    def remarks(self) -> list[str]:
        """Return a sentence for each unusual finding."""
        skipped = (
            f"Members that are not named *{_RECORDS} were skipped: {self.named} ({self.other_count:,} members, "
            f"{self.other_bytes:,} bytes)."
        )
        further = "Members after the tar's end-of-archive marker were also read."
        return [skipped] * bool(self.other_bytes) + [further] * self.goes_on


class TarStream:
    """Sequential reader for a tar file's bytes that reports the position of every failure.

    Args:
        readinto: Function that decompresses into a buffer and returns the number of bytes, or 0 at the end.
        failure: Function that creates an error from a description of the damage, and from the keyword arguments
            `member` (a name or None) and `offset` (in the member or the tar).
    """

    def __init__(self, readinto: Callable[[memoryview], int], failure: Callable[..., Exception]) -> None:
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
        """Read some bytes with a single call. Return the number of bytes, or 0 at the end of the stream."""
        try:
            count = self._readinto(target)
        except DAMAGED as error:
            raise self.error(f"the gzip data is damaged or truncated: {error}") from error
        self.position += count
        return count

    def fill(self, target: memoryview) -> int:
        """Read until `target` is full or the stream ends. Return the number of bytes read."""
        done = 0
        while done < len(target) and (count := self.some(target[done:])):
            done += count
        return done

    def exactly(self, target: memoryview) -> None:
        if self.fill(target) < len(target):
            raise self.error("the tar file is truncated")

    def take(self, count: int) -> bytes:
        data = bytearray(count)
        self.exactly(memoryview(data))
        return bytes(data)

    def sector(self) -> bytes:
        """Return the next 512 bytes, or fewer at the end of the stream."""
        data = bytearray(_SECTOR)
        return bytes(data[: self.fill(memoryview(data))])

    def skip(self, count: int) -> None:
        while count:
            count -= len(self.take(min(count, _SKIP_BYTES)))


def members(stream: TarStream, contents: Contents) -> Iterator[tuple[str, int]]:
    """Yield the display name and size of each member with records, and skip the other members.

    Each member must be read completely before the next member is requested. Two blocks of zeros end a tar. Reading
    continues after zero blocks. Only further zeros or members may follow. Any other data means that the tar is damaged.
    Raises the error that the stream's `failure` creates if the tar is damaged or truncated, or has no members with
    records.
    """
    extended: dict[str, bytes] = {}
    found = record_count = header_bytes = zeros = 0
    while header := stream.sector():
        if header == _ZEROS[: len(header)]:
            zeros += 1
            continue
        if len(header) < _SECTOR:
            raise stream.error("unexpected data follows the end of the tar" if zeros else "the tar file is truncated")
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            what = "the data after the tar archive is not another tar archive" if zeros else "the tar is damaged"
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
        name = legible(path, NAME_MAX)
        if name != path:  # a shortened name remains unique
            name = f"{name} ({hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:8]})"
        size = _size(stream, extended.get("size", info.size))
        if info.type == tarfile.GNUTYPE_SPARSE or "sparse" in extended:
            raise stream.error(f"the member {name} is stored as a sparse file, which is not supported")
        extended, header_bytes = {}, 0
        # POSIX treats members of unknown types as files; links, folders and devices have no data
        if info.type in _FILES or info.type not in tarfile.SUPPORTED_TYPES:
            stream.enter(name)
            if path.lower().endswith(_RECORDS):
                record_count += 1
                contents.ndjson_bytes += size
                yield name, size
            else:
                contents.other_count += 1
                contents.other_bytes += size
                contents.others += [name] if len(contents.others) < _NAMED else []
                stream.skip(size)
            stream.enter(None)
            stream.skip(-size % _SECTOR)
    if extended or header_bytes or not (zeros or found):
        raise stream.error("the tar file is truncated")
    if not found:
        raise stream.error("the archive contains no members")
    if not zeros:
        raise stream.error("the tar file is truncated")
    if not record_count:
        raise stream.error(f"the archive contains no {_RECORDS} member, only {contents.named}")


def _size(stream: TarStream, stated: int | bytes) -> int:
    if isinstance(stated, bytes):
        stated = int(stated) if stated.isdigit() and len(stated) <= len(str(_SIZE_MAX)) else -1
    if not 0 <= stated <= _SIZE_MAX:
        raise stream.error("the tar is damaged: a header contains an impossible size")
    return stated


def _pax(stream: TarStream, payload: bytes) -> dict[str, bytes]:
    """Return an extended header's relevant fields: the path, the size, and whether the member is sparse."""
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
