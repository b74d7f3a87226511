"""Index that maps object keys to current files, and signer of download URLs.

Publication and retention follow the sandbox's clock. The API and the object store's port (`objects`) both use this
index.

Source: the service's documentation of hourly batches and downloads. Batches are published minutes after the hour and
retained for two days. Signed URLs are valid for 60 seconds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from resources.sandbox.clock import Clock
from resources.sandbox.faults import Fault, Faults, damaged_archive
from resources.sandbox.store.archived_world import Contents
from resources.sandbox.store.archives import Piece
from resources.sandbox.store.exports import Exports

RETENTION = timedelta(days=2)
SIGNED_URL_SECONDS = 60
BUCKET = "wme-sandbox"

#: Pattern of an object key. A key starts with the name of the area, except for articles.
_KEY = re.compile(
    r"(?:(?P<area>[a-z-]+)/)?"
    r"(?:aggregations/batches/(?P<date>[^/]+)/(?P<hour>[^/]+)/(?P<batch>[^/]+)"
    r"|(?:snapshots/(?P<snapshot>[^/]+?)|chunks/(?P<whole>[^/]+)/chunk_(?P<chunk>[^/_]+))(?P<free>_group_1)?)\.tar\.gz"
)
_CHUNK_IDENTIFIER = re.compile(r"_chunk_\d+$")

#: Part size of multipart uploads. The ETag of a larger file is not the file's MD5.
_PART_BYTES = 100_000_000


@dataclass(frozen=True)
class StoredFile:
    record: dict[str, Any]
    path: Path
    size: int
    modified_at: datetime
    api_path: str
    #: Identifier of the snapshot that the file or chunk belongs to, or None for an hourly batch.
    snapshot: str | None = None
    #: MD5 of the file, or None if the MD5 is not known without reading the file.
    md5: str | None = None

    @property
    def etag(self) -> str:
        """Return the store's ETag for the file. For a large file, the complete file is read."""
        return self.md5 if self.md5 is not None and self.size <= _PART_BYTES else _etag(self.path)

    def headers(self, zone: str) -> dict[str, str]:
        """Return the headers for a download. `zone` is `GMT` for the store and `UTC` for the API."""
        return {
            "Accept-Ranges": "bytes",
            "Last-Modified": format_datetime(self.modified_at, usegmt=True).replace("GMT", zone),
            "ETag": f'"{self.etag}"',
            "Content-Type": "binary/octet-stream",
        }


class ObjectIndex:
    """Index of the files in one area. Methods may build archives, so they must be called from worker threads."""

    def __init__(
        self, contents: Contents, clock: Clock, faults: Faults, exports: Exports, folder: Path, area: str = ""
    ) -> None:
        """Store damaged copies in `folder`. `area` is the path segment after the endpoint type (empty for articles)."""
        self.area = area
        self._contents = contents
        self._clock = clock
        self._faults = faults
        self.exports = exports
        self._folder = folder
        #: Function that builds an hour's archives in parallel, or None to build them sequentially.
        self.maker: Callable[[datetime], None] | None = None

    def batches(self, date: str, hour: str) -> list[StoredFile] | None:
        """Return an hour's batches, or None if the hour is invalid, unpublished or expired."""
        start = _parse_hour(date, hour)
        if start is None:
            return None
        now = self._clock.now()
        # no calculations with hours near the year 9999, the last year of a datetime
        if start > now or not self._contents.hour_ready_at(start) <= now < start + RETENTION:
            return None
        if self.maker is not None:
            self.maker(start)
        return [
            self._stored(file, batch_key(date, hour, file.record["identifier"], self.area), None)
            for file in self._contents.batches(start)
        ]

    def batch(self, date: str, hour: str, identifier: str) -> StoredFile | None:
        found = self.batches(date, hour) or []
        return next((file for file in found if file.record["identifier"] == identifier), None)

    def snapshot_outlines(self) -> list[dict[str, Any]]:
        """Return the fields of each snapshot record that are known before the archives are built."""
        outlines = []
        for identifier in self.exports.identifiers():
            project, _, namespace = identifier.rpartition("_namespace_")
            outline = {
                "identifier": identifier,
                "is_part_of": {"identifier": project},
                "in_language": {"identifier": self._contents.language(project)},
                "namespace": {"identifier": int(namespace)},
            }
            outlines.append(outline)
        return outlines

    def snapshot(self, identifier: str, *, free: bool) -> StoredFile | None:
        """Return the current snapshot for free or paid accounts, or None if the snapshot does not exist."""
        snapshot = self.exports.snapshot(identifier, free=free)
        if snapshot is None:
            return None
        return self._stored(snapshot, snapshot_key(identifier, free=False, area=self.area), identifier)

    def chunks(self, identifier: str, *, free: bool) -> list[StoredFile] | None:
        """Return the current snapshot's chunks, or None if the snapshot does not exist."""
        snapshot = self.exports.snapshot(identifier, free=free)
        return None if snapshot is None else [self._chunk(identifier, file) for file in snapshot.chunks]

    def chunk(self, identifier: str, number: str, *, free: bool) -> StoredFile | None:
        """Return one of the current snapshot's chunks, or None if the chunk does not exist."""
        snapshot = self.exports.snapshot(identifier, free=free)
        wanted = f"{identifier}_chunk_{number}"
        for file in snapshot.chunks if snapshot is not None else ():
            if file.record["identifier"] == wanted:
                return self._chunk(identifier, file)
        return None

    def find(self, key: str) -> StoredFile | None:
        match = _KEY.fullmatch(key)
        if match is None:
            return None
        if match["hour"]:
            return self.batch(match["date"], match["hour"], match["batch"])
        free = match["free"] is not None
        if match["snapshot"]:
            return self.snapshot(match["snapshot"], free=free)
        return self.chunk(match["whole"], match["chunk"], free=free)

    def sent(self, file: StoredFile) -> None:
        """Record that the complete file was sent."""
        if file.snapshot is not None:
            self.exports.note_download(file.snapshot)

    def damaged(self, file: StoredFile, fault: Fault) -> StoredFile:
        """Return a damaged copy of the file. The record still describes the undamaged file."""
        path = damaged_archive(file.path, fault, self._folder)
        return replace(file, path=path, size=path.stat().st_size, md5=None)

    def _chunk(self, snapshot: str, file: Piece) -> StoredFile:
        number = file.record["identifier"].rpartition("_")[2]
        return self._stored(file, chunk_key(snapshot, number, free=False, area=self.area), snapshot)

    def _stored(self, file: Piece, key: str, snapshot: str | None) -> StoredFile:
        record, path, api_path = file.record, file.path, download_path(key) or ""
        modified_at = datetime.fromisoformat(record["date_modified"])
        fault = self._faults.listed_damage(api_path)
        if fault is not None:
            path = damaged_archive(path, fault, self._folder)
            digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
            exact = path.stat().st_size / 1_000_000
            megabytes = exact if _CHUNK_IDENTIFIER.search(record["identifier"]) else round(exact, 3)
            record = {**record, "version": digest, "size": {**record["size"], "value": megabytes}}
        size = path.stat().st_size
        return StoredFile(record, path, size, modified_at, api_path, snapshot, record["version"])


def oldest_hour(now: datetime) -> datetime:
    """Return the start of the oldest hour that is still retained."""
    kept = now - RETENTION
    hour = kept.replace(minute=0, second=0, microsecond=0)
    # the retention period begins when the hour begins
    return hour + timedelta(hours=1)


def batch_key(date: str, hour: str, identifier: str, area: str = "") -> str:
    return f"{_begin(area)}aggregations/batches/{date}/{hour}/{identifier}.tar.gz"


def snapshot_key(identifier: str, *, free: bool, area: str = "") -> str:
    """Return the object key of a snapshot or of its copy for free accounts."""
    return f"{_begin(area)}snapshots/{identifier}{'_group_1' if free else ''}.tar.gz"


def chunk_key(snapshot: str, number: str, *, free: bool, area: str = "") -> str:
    """Return the object key of a chunk or of its copy for free accounts."""
    return f"{_begin(area)}chunks/{snapshot}/chunk_{number}{'_group_1' if free else ''}.tar.gz"


def download_path(key: str) -> str | None:
    """Return the API's download path for a key, even for a missing file, or None for an invalid key."""
    if (match := _KEY.fullmatch(key)) is None:
        return None
    begin = _begin(match["area"])
    if match["hour"]:
        return f"/v2/batches/{begin}{match['date']}/{match['hour']}/{match['batch']}/download"
    if match["snapshot"]:
        return f"/v2/snapshots/{begin}{match['snapshot']}/download"
    whole = match["whole"]
    return f"/v2/snapshots/{begin}{whole}/chunks/{whole}_chunk_{match['chunk']}/download"


def area_of(key: str) -> str:
    """Return the area that a key belongs to, or an empty string for articles and invalid keys."""
    match = _KEY.fullmatch(key)
    return match["area"] or "" if match else ""


def _begin(area: str | None) -> str:
    return f"{area}/" if area else ""


class Signer:
    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._secret = secret
        self._clock = clock

    def sign(self, key: str, subject: str, *, age: timedelta = timedelta()) -> str:
        """Return the path and query of a signed URL for `key`. The URL expires 60 seconds minus `age` from now."""
        issued = (self._clock.now() - age).strftime("%Y%m%dT%H%M%SZ")
        path = f"/{BUCKET}/{quote(key)}"
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"SANDBOX/{issued[:8]}/us-east-1/s3/aws4_request",
            "X-Amz-Date": issued,
            "X-Amz-Expires": str(SIGNED_URL_SECONDS),
            "X-Amz-SignedHeaders": "host",
            "X-Amz-Signature": self._signature(path, issued, subject),
            "sub": subject,
        }
        return f"{path}?{urlencode(query)}"

    def problem(self, path: str, query: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the code and message of the store's error, or None for a valid signature."""
        signature, issued = query.get("X-Amz-Signature"), query.get("X-Amz-Date", "")
        if signature is None:
            return "AccessDenied", "Access Denied"
        expected = self._signature(path, issued, query.get("sub", ""))
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            return (
                "SignatureDoesNotMatch",
                (
                    "The request signature we calculated does not match the signature you provided. "
                    "Check your key and signing method."
                ),
            )
        issued_at = datetime.strptime(issued, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if (self._clock.now() - issued_at).total_seconds() > SIGNED_URL_SECONDS:
            return "AccessDenied", "Request has expired"
        return None

    def _signature(self, path: str, issued: str, subject: str) -> str:
        return hmac.new(self._secret, f"GET\n{path}\n{issued}\n{subject}".encode(), hashlib.sha256).hexdigest()


def _parse_hour(date: str, hour: str) -> datetime | None:
    """Parse an hour. Only the exact formats `YYYY-MM-DD` and `HH` are valid."""
    try:
        moment = datetime.strptime(f"{date} {hour}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment if f"{moment:%Y-%m-%d %H}" == f"{date} {hour}" else None


@lru_cache(maxsize=1024)
def _etag(path: Path) -> str:
    """Return the MD5 or, for multipart uploads, the MD5 of all part MD5s followed by the number of parts.

    The path is enough for the cache, because files in the store are never replaced.
    """
    parts = []
    with path.open("rb") as file:
        while chunk := file.read(_PART_BYTES):
            parts.append(hashlib.md5(chunk, usedforsecurity=False))
    if len(parts) <= 1:
        return (parts[0] if parts else hashlib.md5(usedforsecurity=False)).hexdigest()
    joined = hashlib.md5(b"".join(part.digest() for part in parts), usedforsecurity=False)
    return f"{joined.hexdigest()}-{len(parts)}"
