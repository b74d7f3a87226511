"""Single files of the service by the path of their record: batches, snapshots and chunks of every dataset.

Source: the service's description of downloads: HEAD costs no quota; a GET costs a unit where the product has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pydantic import TypeAdapter

from resources.datasets import Family, datasets
from resources.enterprise import errors, models
from resources.enterprise.download.signed_url import Source
from resources.enterprise.http import endpoints
from resources.enterprise.http.answers import etag_in, moment_in, number_in
from resources.enterprise.http.foreign import guarded
from resources.enterprise.reading import read_archive, read_pieces

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from datetime import datetime
    from os import PathLike

    from resources.datasets import Dataset
    from resources.enterprise.data_api import DataApi
    from resources.enterprise.download.downloader import Downloader
    from resources.enterprise.download.signed_url import Progress

_RECORD: Final = TypeAdapter(models.ArchiveRecord)


@dataclass(frozen=True)
class FileHead:
    """The headers of a file. The service may leave out each of them: None.

    Attributes:
        size_bytes: Exact size, compressed.
        modified_at: Last change of the object, in UTC.
        etag: The object store's mark of this state, with its quotes; not the MD5.
        content_type: Media type.
    """

    size_bytes: int | None
    modified_at: datetime | None
    etag: str | None
    content_type: str | None


@guarded
class ServiceFiles:
    """Single files by the path of their record (from `endpoints`), and the records of archives. Safe for several threads."""

    def __init__(self, api: DataApi, downloader: Downloader) -> None:
        self._api = api
        self._downloader = downloader
        self.redactor = api.redactor

    def head(self, path: str) -> FileHead:
        """Read the size and other headers of a file (`HEAD {path}/download`). Costs no quota.

        Raises:
            NotFound: There is no such file.
            InvalidRequest: The path is not that of a file's record; nothing was sent.
        """
        headers = self._api.head(endpoints.download(_checked(path)), f"read the headers of {path}")
        return FileHead(
            number_in(headers, "Content-Length"),
            moment_in(headers, "Last-Modified"),
            etag_in(headers),
            headers.get("Content-Type"),
        )

    def download(self, path: str, target: BinaryIO, progress: Progress | None = None) -> models.ArchiveRecord:
        """Write a file to any object with `write`, in order and in bounded memory; it is not closed.

        A broken connection is continued within this call. A call that failed cannot be continued: discard what it
        wrote. `Hours.download` and `Snapshots.download` continue across calls, and fetch large files over several
        connections. One unit of quota at most, and one more for each new signed URL.

        Returns:
            The record of the file that was written.

        Raises:
            IntegrityError: The bytes that were written are not those that the record names (MD5).
            EnterpriseError: As for `head`, or the file could not be fetched.
        """
        record = self._record(_checked(path))
        for piece in self._downloader.pieces(self._source(path, record)):
            left = memoryview(piece)
            while left:
                count = target.write(left)
                left = left[len(left) if count is None else count :]
            if progress is not None:
                progress(len(piece))
        return record

    def read(self, archive: str | PathLike[str] | BinaryIO, model: Any = None) -> Iterator[Any]:
        """Read the records of an archive, one by one: of a local file, an open binary file, or a file of the service.

        A text that begins with `/v2/` is the path of a record of the service: its file is read while it is fetched,
        without a disk, and each call costs a unit of quota where the product has one. A local file needs no account:
        `read_archive` is the same without a client.

        Args:
            archive: What to read.
            model: The model of the records, from `record_model`; without it each record is a dict.

        Raises:
            IntegrityError: After the last good record: the archive is damaged or truncated, lines are no records, or
                the bytes are not those that the service's record names.
            EnterpriseError: As for `download`.
        """
        if isinstance(archive, str) and archive.startswith("/v2/"):
            return read_pieces(archive, self._pieces(archive), model)
        return read_archive(archive, model)

    def _pieces(self, path: str) -> Generator[bytes, None, None]:
        """The bytes of a file, verified when the last one is taken."""
        yield from self._downloader.pieces(self._source(path, self._record(_checked(path))))

    def _record(self, path: str) -> models.ArchiveRecord:
        return self._api.record(path, _RECORD, f"read the record {path}")[0]

    def _source(self, path: str, record: models.ArchiveRecord) -> Source:
        address, quota = endpoints.download(path), _quota(path)
        return Source(
            identifier=record.identifier,
            version=record.version,
            size_hint=record.stated_bytes,
            url_path=address,
            resolve=lambda: self._api.address(address, f"get the address of {path}", quota),
            read_again=lambda: (self._source(path, self._record(path)), 1),
            pinned=True,
        )


def _checked(path: str) -> str:
    """The path, if it can be that of a file's record."""
    if any(path.startswith(f"{endpoints.records(one)}/") for one in _with_files()):
        return path
    raise errors.InvalidRequest(
        f"{path[:200]!r} is not the path of a file's record. Nothing was sent. Write it as `endpoints` does, for example "
        "/v2/snapshots/enwiki_namespace_0 or /v2/batches/2026-11-20/05/enwiki_namespace_0."
    )


def _with_files() -> list[Dataset]:
    """The datasets that have files; one whose path begins with another's comes first."""
    found = [one for one in datasets() if one.family in {Family.HOURLY, Family.SNAPSHOT}]
    return sorted(found, key=lambda one: len(one.endpoint), reverse=True)


def _quota(path: str) -> str | None:
    """Counter of `get-user` that a download draws on."""
    dataset = next(one for one in _with_files() if path.startswith(f"{endpoints.records(one)}/"))
    return dataset.chunk_quota if "/chunks/" in path else dataset.quota
