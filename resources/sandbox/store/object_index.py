"""The index of the object store: which file each key names at this moment, and the signatures that open it.

Publication and retention follow the clock. The API lists from here, and the object store's port (`objects`) serves
from here.

Source: the service's documentation of hourly files (they appear minutes after their hour and are kept for two days)
and of downloads (signed URLs live 60 seconds).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from resources.sandbox.faults import damaged_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from resources.sandbox.clock import Clock
    from resources.sandbox.faults import Fault, Faults
    from resources.sandbox.store.archived_world import Contents
    from resources.sandbox.store.archives import Piece
    from resources.sandbox.store.exports import Exports

RETENTION = timedelta(days=2)
SIGNED_URL_SECONDS = 60
BUCKET = "wme-sandbox"

#: A key of the store; that of an area begins with its name, that of articles with none.
_KEY = re.compile(
    r"(?:(?P<area>[a-z-]+)/)?"
    r"(?:aggregations/batches/(?P<date>[^/]+)/(?P<hour>[^/]+)/(?P<batch>[^/]+)"
    r"|(?:snapshots/(?P<snapshot>[^/]+?)|chunks/(?P<whole>[^/]+)/chunk_(?P<chunk>[^/_]+))(?P<free>_group_1)?)\.tar\.gz"
)
_CHUNK_IDENTIFIER = re.compile(r"_chunk_\d+$")

#: Files above this were uploaded in parts, so that their ETag is not their MD5.
_PART_BYTES = 100_000_000
#: Hours whose lists stay in memory: the two days that are kept upstream.
_HOURS_IN_MEMORY = 50


@dataclass(frozen=True)
class StoredFile:
    """One file of the store."""

    record: dict[str, Any]
    path: Path
    size: int
    modified_at: datetime
    api_path: str
    #: The snapshot that it belongs to, as a whole or as a chunk; None for an hourly file.
    snapshot: str | None = None
    #: None: not known without reading the file.
    md5: str | None = None

    @property
    def etag(self) -> str:
        """The store's ETag. A large file has to be read for it, so no list does."""
        return self.md5 if self.md5 is not None and self.size <= _PART_BYTES else _etag(self.path)

    def headers(self, zone: str) -> dict[str, str]:
        """The headers that describe it. The store writes `GMT` into its dates, the API `UTC`."""
        return {
            "Accept-Ranges": "bytes",
            "Last-Modified": format_datetime(self.modified_at, usegmt=True).replace("GMT", zone),
            "ETag": f'"{self.etag}"',
            "Content-Type": "binary/octet-stream",
        }


class ObjectIndex:
    """Looks up files. Its methods may build archives, so they are called in worker threads."""

    def __init__(
        self, contents: Contents, clock: Clock, faults: Faults, exports: Exports, folder: Path, area: str = ""
    ) -> None:
        """`folder` receives damaged copies; `area` is what the paths of all files have behind the kind of endpoint."""
        self.area = area
        self._contents = contents
        self._clock = clock
        self._faults = faults
        self.exports = exports
        self._folder = folder
        self._lock = threading.Lock()
        self._hour_locks: dict[datetime, threading.Lock] = {}
        self._hours: dict[datetime, Sequence[Piece]] = {}
        #: Makes the archives of an hour's projects side by side; None: they are made one after the other.
        self.maker: Callable[[datetime], None] | None = None

    def batches(self, date: str, hour: str) -> list[StoredFile] | None:
        """The files of an hour; None while it is not published, after it was removed, or when it is no hour at all."""
        start = _parse_hour(date, hour)
        if start is None:
            return None
        now = self._clock.now()
        if not self._contents.hour_ready_at(start) <= now < start + RETENTION:
            return None
        return [
            self._stored(file, batch_key(date, hour, file.record["identifier"], self.area), None)
            for file in self._files(start)
        ]

    def batch(self, date: str, hour: str, identifier: str) -> StoredFile | None:
        """One file of an hour, or None."""
        found = self.batches(date, hour) or []
        return next((file for file in found if file.record["identifier"] == identifier), None)

    def snapshot_outlines(self) -> list[dict[str, Any]]:
        """Return the fields of each snapshot's record that are known without its archives."""
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
        """The current snapshot, for free accounts or for others; None when there is none."""
        snapshot = self.exports.snapshot(identifier, free=free)
        if snapshot is None:
            return None
        return self._stored(snapshot, snapshot_key(identifier, free=False, area=self.area), identifier)

    def chunks(self, identifier: str, *, free: bool) -> list[StoredFile] | None:
        """The chunks of the current snapshot; None when there is no such snapshot."""
        snapshot = self.exports.snapshot(identifier, free=free)
        return None if snapshot is None else [self._chunk(identifier, file) for file in snapshot.chunks]

    def chunk(self, identifier: str, number: str, *, free: bool) -> StoredFile | None:
        """One chunk of a snapshot, or None."""
        snapshot = self.exports.snapshot(identifier, free=free)
        wanted = f"{identifier}_chunk_{number}"
        for file in snapshot.chunks if snapshot is not None else ():
            if file.record["identifier"] == wanted:
                return self._chunk(identifier, file)
        return None

    def find(self, key: str) -> StoredFile | None:
        """The file with a key of the store, or None."""
        match = _KEY.fullmatch(key)
        if match is None or (match["area"] or "") != self.area:
            return None
        if match["hour"]:
            return self.batch(match["date"], match["hour"], match["batch"])
        free = match["free"] is not None
        if match["snapshot"]:
            return self.snapshot(match["snapshot"], free=free)
        return self.chunk(match["whole"], match["chunk"], free=free)

    def sent(self, file: StoredFile) -> None:
        """Take note that a file was sent to its last byte."""
        if file.snapshot is not None:
            self.exports.note_download(file.snapshot)

    def damaged(self, file: StoredFile, fault: Fault) -> StoredFile:
        """Return the same file with the fault's damage; its record still describes the undamaged file."""
        path = damaged_archive(file.path, fault, self._folder)
        return replace(file, path=path, size=path.stat().st_size, md5=None)

    def _files(self, start: datetime) -> Sequence[Piece]:
        with self._lock:
            lock = self._hour_locks.setdefault(start, threading.Lock())
        # One request builds an hour, the others wait for it; different hours do not wait for each other.
        with lock:
            if start not in self._hours:
                if self.maker is not None:
                    self.maker(start)
                files = self._contents.batches(start)
                with self._lock:
                    self._hours[start] = files
                    while len(self._hours) > _HOURS_IN_MEMORY:
                        self._hours.pop(next(iter(self._hours)))
            return self._hours[start]

    def _chunk(self, snapshot: str, file: Piece) -> StoredFile:
        number = file.record["identifier"].rpartition("_")[2]
        return self._stored(file, chunk_key(snapshot, number, free=False, area=self.area), snapshot)

    def _stored(self, file: Piece, key: str, snapshot: str | None) -> StoredFile:
        record, path, api_path = file.record, file.path, download_path(key) or ""
        modified_at = _parse_moment(record["date_modified"])
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
    """The oldest hour that is still kept."""
    kept = now - RETENTION
    hour = kept.replace(minute=0, second=0, microsecond=0)
    # an hour is kept for two days from its start
    return hour + timedelta(hours=1)


def batch_key(date: str, hour: str, identifier: str, area: str = "") -> str:
    """Return the key of an hourly file in the store."""
    return f"{_begin(area)}aggregations/batches/{date}/{hour}/{identifier}.tar.gz"


def snapshot_key(identifier: str, *, free: bool, area: str = "") -> str:
    """Return the key of a snapshot in the store."""
    return f"{_begin(area)}snapshots/{identifier}{'_group_1' if free else ''}.tar.gz"


def chunk_key(snapshot: str, number: str, *, free: bool, area: str = "") -> str:
    """Return the key of a chunk in the store."""
    return f"{_begin(area)}chunks/{snapshot}/chunk_{number}{'_group_1' if free else ''}.tar.gz"


def download_path(key: str) -> str | None:
    """Return the download path on the API of a key, also of a missing file; chunks by their whole identifier."""
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
    """Return the area that a key belongs to."""
    match = _KEY.fullmatch(key)
    return match["area"] or "" if match else ""


def _begin(area: str | None) -> str:
    return f"{area}/" if area else ""


class Signer:
    """Makes and checks signed URLs of the store."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        """`secret` signs; URLs of another secret are refused."""
        self._secret = secret
        self._clock = clock

    def sign(self, key: str, subject: str, *, age: timedelta = timedelta()) -> str:
        """Path and query that open `key` for 60 seconds, counted from `age` ago."""
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
        """Code and message of the store's refusal, or None when the signature opens the path."""
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
    """The hour that the two path pieces name; the store knows only the exact forms `YYYY-MM-DD` and `HH`."""
    try:
        moment = datetime.strptime(f"{date} {hour}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment if f"{moment:%Y-%m-%d %H}" == f"{date} {hour}" else None


def _parse_moment(text: str) -> datetime:
    """An RFC 3339 moment with up to nine digits of a second."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def _etag(path: Path) -> str:
    """The store's ETag: the MD5, or, for files uploaded in parts, the MD5 of the parts' MD5s and their number."""
    status = path.stat()
    return _etag_of(path, status.st_size, status.st_mtime_ns, _PART_BYTES)


@lru_cache(maxsize=1024)
def _etag_of(path: Path, size: int, changed: int, part_bytes: int) -> str:
    del size, changed  # they distinguish files of one name
    parts = []
    with path.open("rb") as file:
        while chunk := file.read(part_bytes):
            parts.append(hashlib.md5(chunk, usedforsecurity=False))
    if len(parts) <= 1:
        return (parts[0] if parts else hashlib.md5(usedforsecurity=False)).hexdigest()
    joined = hashlib.md5(b"".join(part.digest() for part in parts), usedforsecurity=False)
    return f"{joined.hexdigest()}-{len(parts)}"
