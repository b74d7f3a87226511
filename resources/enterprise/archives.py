"""Streaming readers for archives, and downloads of single files.

A reader holds only one record in memory. After the last readable record, a reader raises an error if the archive is
damaged or truncated, or contains invalid records.

Source: the service's documentation on downloads. HEAD requests use no quota. A GET request costs one unit if the
product has a quota.
"""

import codecs
import gzip
import io
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, cast

from pydantic import ValidationError

from resources import files
from resources.enterprise import endpoints, models
from resources.enterprise.data_api import Section
from resources.enterprise.download.downloader import Transfer
from resources.enterprise.download.object_reader import Progress
from resources.enterprise.errors import IntegrityError
from resources.enterprise.http.answers import etag_in, moment_in, number_in
from resources.enterprise.listing import shape_problem
from resources.formatting import counted
from resources.tar import Contents, TarStream, members

#: Default maximum length of a record in bytes.
RECORD_BYTES_MAX: Final = 256 << 20
_STEP: Final = 1 << 18
#: Maximum number of bad lines listed in a message.
_NAMED: Final = 3


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


def read_archive(
    archive: str | os.PathLike[str] | BinaryIO, model: Any = None, *, record_bytes_max: int = RECORD_BYTES_MAX
) -> Iterator[Any]:
    """Read an archive's records in order. `archive` is the path of a `.tar.gz` file of NDJSON files, or the open file.

    Reading requires no account and no network access. An open file must be binary and stays open. Only one record is in
    memory at a time. In memory, a record needs about five times as many bytes as its line. Records are dicts or, if
    `model` is specified, instances of that model (see `record_model`). Lines over `record_bytes_max` bytes are not
    parsed.

    Raises:
        FileNotFoundError: The file does not exist.
        IntegrityError: The archive is damaged or truncated, or contains invalid records. Raised after the last good
            record.
    """
    opened: AbstractContextManager[BinaryIO]
    if isinstance(archive, str | os.PathLike):
        name, opened = str(archive), files.opened(Path(archive))
    else:
        name, opened = str(getattr(archive, "name", "The archive")), nullcontext(archive)
    with opened as file:
        yield from _Reader(name, model, record_bytes_max).records(file)


def read_pieces(name: str, pieces: Generator[bytes, None, None], model: Any = None) -> Iterator[Any]:
    """Read the records from an archive that arrives in blocks. See `read_archive`."""
    rest, failure = memoryview(b""), None

    def fill(buffer: Any) -> int:
        nonlocal rest, failure
        if not rest:
            try:
                rest = memoryview(next(pieces, b""))
            except Exception as error:  # noqa: BLE001  raised when all records were given
                failure = error
        count = min(len(buffer), len(rest))
        buffer[:count], rest = rest[:count], rest[count:]
        return count

    with closing(pieces), io.BufferedReader(_Raw(fill), _STEP) as file:
        try:
            yield from _Reader(name, model, RECORD_BYTES_MAX).records(cast("BinaryIO", file))
        except IntegrityError:
            if failure is None:
                raise
    if failure is not None:
        raise failure


class _Raw(io.RawIOBase):
    """File interface for a function that fills a buffer and returns the number of bytes."""

    def __init__(self, fill: Callable[[Any], int]) -> None:
        self._fill = fill

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._fill(buffer)


class _Reader:
    def __init__(self, name: str, model: Any, longest: int) -> None:
        self._name = name
        self._model = model
        self._longest = longest
        self._count = self._bad_count = 0
        self._bad: list[str] = []

    def records(self, file: BinaryIO) -> Iterator[Any]:
        # unlike faster libraries, gzip returns all data that precedes the damage
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            stream = TarStream(unpacked.readinto1, self._damage)
            for name, size in members(stream, Contents()):
                yield from self._member(stream, name, size)
        if self._bad_count:
            more = self._bad_count - len(self._bad)
            named = "; ".join(self._bad) + (f"; and {more:,} more" if more else "")
            lines = counted(self._bad_count, "line")
            raise IntegrityError(
                f"{self._name}: {lines} could not be read as {'a record' if self._bad_count == 1 else 'records'} "
                f"({named}). {self._given()} Report these lines to the vendor."
            )

    def _member(self, stream: TarStream, name: str, left: int) -> Iterator[Any]:
        number = 0

        def fill(buffer: Any) -> int:
            nonlocal left
            target = memoryview(buffer)[:left]
            count = stream.some(target)
            if target and not count:
                raise stream.error("the tar file is truncated")
            left -= count
            return count

        with io.BufferedReader(_Raw(fill), _STEP) as file:
            while line := file.readline(self._longest + 1):
                number, size, end = number + 1, len(line), line[-1:]
                while end != b"\n" and (rest := file.readline(_STEP)):  # skip the rest of a line that is too long
                    size, end = size + len(rest), rest[-1:]
                yield from self._record(name, number, size - (end == b"\n"), line)
                del line

    def _record(self, member: str, number: int, size: int, line: bytes) -> Iterator[Any]:
        """Yield a line's record, or nothing if the line is blank or invalid."""
        if size > self._longest:
            problem = f"the record is {size:,} bytes long, which exceeds the maximum of {self._longest:,}"
        else:
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line or line.isspace():
                return
            try:
                record = (
                    _DECODER.decode(line.decode()) if self._model is None else self._model.model_validate_json(line)
                )
            except ValidationError as error:
                problem = shape_problem(error)
            except (ValueError, RecursionError):
                problem = "not JSON"
            else:
                if self._model is not None or isinstance(record, dict):
                    self._count += 1
                    yield record
                    return
                problem = "the line is JSON, but not an object"
        self._bad_count += 1
        if len(self._bad) < _NAMED:
            self._bad.append(f"line {number:,} of {member}: {problem}")

    def _damage(self, what: str, *, member: str | None, offset: int) -> IntegrityError:
        place = f"in member {member} at byte {offset:,}" if member is not None else f"at byte {offset:,} of the tar"
        return IntegrityError(
            f"{self._name}: {what} ({place}). {self._given()} Fetch the archive again if the service still has it."
        )

    def _given(self) -> str:
        return f"{counted(self._count, 'record')} could be read and were returned before this error."


@dataclass(frozen=True)
class FileHead:
    """Headers of a compressed file, or None for absent headers. The ETag includes its quotes and is not an MD5."""

    size_bytes: int | None
    modified_at: datetime | None
    etag: str | None
    content_type: str | None


class ServiceFiles(Section):
    """Access to single files, by their records' paths (see `endpoints`), and to records in archives. Thread-safe."""

    def head(self, path: str) -> FileHead:
        """Read a file's size and other headers (`HEAD {path}/download`). HEAD requests use no quota.

        Raises NotFound, or InvalidRequest if the path does not identify a file record.
        """
        endpoints.file_quota(path)
        address, doing = endpoints.download(path), f"read the headers of {path}"
        headers = self._api.ask(address, doing, lambda answer: answer.headers, plain="HEAD")
        return FileHead(
            number_in(headers, "Content-Length"),
            moment_in(headers, "Last-Modified"),
            etag_in(headers),
            headers.get("Content-Type"),
        )

    def download(self, path: str, target: BinaryIO, progress: Progress | None = None) -> models.ArchiveRecord:
        """Download a file, in order and with bounded memory, to any object with a `write` method. It stays open.

        If the connection breaks, this call resumes the download. After a failed call, discard the output.
        `Hours.download` and `Snapshots.download` resume across calls. A download costs at most one quota unit, plus one
        unit for each additional signed URL.

        Returns the downloaded file's record. Raises IntegrityError if the bytes do not match the MD5 in the record, or
        another EnterpriseError (see `head`).
        """
        transfer = self._transfer(path)
        for piece in transfer.pieces():
            left = memoryview(piece)
            while left:
                count = target.write(left)
                left = left[len(left) if count is None else count :]
            if progress is not None:
                progress(len(piece))
        return transfer.record

    def read(self, archive: str | PathLike[str] | BinaryIO, model: Any = None) -> Iterator[Any]:
        """Read an archive's records one by one, from a local file, from an open binary file, or from the service.

        A string that begins with `/v2/` is the path of a service record. The record's file is parsed while it is being
        downloaded, without using the disk. Each such call costs one unit if the product has a quota. To read local
        files without an account, use `read_archive`.

        Raises:
            IntegrityError: The archive is damaged or truncated, contains invalid records, or does not match the
                service's record. Raised after the last good record.
            EnterpriseError: The download failed, or an error listed for `head` occurred.
        """
        if isinstance(archive, str) and archive.startswith("/v2/"):
            return read_pieces(archive, self._transfer(archive).pieces(), model)
        return read_archive(archive, model)

    def _transfer(self, path: str) -> Transfer:
        quota = endpoints.file_quota(path)
        read = partial(self._api.record, path, models.ArchiveRecord, f"read the record {path}")
        return self._api.transfer(path, read(), quota, read, name=path, pinned=True)
