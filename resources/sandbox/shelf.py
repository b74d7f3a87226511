"""The object store's shelf: which files lie under which keys at this moment, and the signatures that open them.

Belongs here: publication and retention by the clock, damaged copies, keys, signed URLs and their life. Does not belong
here: HTTP (`batches` for the API, `objects` for the store's own port).

Source: the service's documentation of hourly files (appear minutes after their hour, kept for two days) and of
downloads (signed URLs live 60 seconds).
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from resources.sandbox.damage import damaged_archive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from resources.sandbox.clock import Clock
    from resources.sandbox.contents import BatchFile, Contents
    from resources.sandbox.faults import Fault, Faults

RETENTION = timedelta(days=2)
SIGNED_URL_SECONDS = 60
BUCKET = "wme-sandbox"

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
    etag: str
    modified_at: datetime
    api_path: str

    def headers(self, zone: str) -> dict[str, str]:
        """The headers that describe it. The store writes `GMT` into its dates, the API `UTC`."""
        return {
            "Accept-Ranges": "bytes",
            "Last-Modified": format_datetime(self.modified_at, usegmt=True).replace("GMT", zone),
            "ETag": f'"{self.etag}"',
            "Content-Type": "binary/octet-stream",
        }


class Shelf:
    """Looks up hourly files. Its methods may build archives, so they are called in worker threads."""

    def __init__(self, contents: Contents, clock: Clock, faults: Faults, folder: Path) -> None:
        """`folder` receives damaged copies."""
        self._contents = contents
        self._clock = clock
        self._faults = faults
        self._folder = folder
        self._lock = threading.Lock()
        self._hour_locks: dict[datetime, threading.Lock] = {}
        self._hours: dict[datetime, Sequence[BatchFile]] = {}

    def batches(self, date: str, hour: str) -> list[StoredFile] | None:
        """The files of an hour; None while it is not published, after it was removed, or when it is no hour at all."""
        start = _parse_hour(date, hour)
        if start is None:
            return None
        now = self._clock.now()
        if not self._contents.hour_ready_at(start) <= now < start + RETENTION:
            return None
        return [self._stored(file, date, hour) for file in self._files(start)]

    def batch(self, date: str, hour: str, identifier: str) -> StoredFile | None:
        """One file of an hour, or None."""
        found = self.batches(date, hour) or []
        return next((file for file in found if file.record["identifier"] == identifier), None)

    def damaged(self, file: StoredFile, fault: Fault) -> StoredFile:
        """The same file with the fault's damage in it, under the record that promises it whole."""
        path = damaged_archive(file.path, fault, self._folder)
        return StoredFile(file.record, path, path.stat().st_size, _etag(path), file.modified_at, file.api_path)

    def _files(self, start: datetime) -> Sequence[BatchFile]:
        with self._lock:
            lock = self._hour_locks.setdefault(start, threading.Lock())
        # One request builds an hour, the others wait for it; different hours do not wait for each other.
        with lock:
            if start not in self._hours:
                files = self._contents.batches(start)
                with self._lock:
                    self._hours[start] = files
                    while len(self._hours) > _HOURS_IN_MEMORY:
                        self._hours.pop(next(iter(self._hours)))
            return self._hours[start]

    def _stored(self, file: BatchFile, date: str, hour: str) -> StoredFile:
        record, path = file.record, file.path
        api_path = batch_path(date, hour, record["identifier"])
        modified_at = _parse_moment(record["date_modified"])
        fault = self._faults.listed_damage(api_path)
        if fault is not None:
            path = damaged_archive(path, fault, self._folder)
            digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
            megabytes = round(path.stat().st_size / 1_000_000, 3)
            record = {**record, "version": digest, "size": {**record["size"], "value": megabytes}}
        size = path.stat().st_size
        etag = record["version"] if size <= _PART_BYTES else _etag(path)
        return StoredFile(record, path, size, etag, modified_at, api_path)


def batch_path(date: str, hour: str, identifier: str) -> str:
    """The download path of an hourly file on the API."""
    return f"/v2/batches/{date}/{hour}/{identifier}/download"


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
    parts = []
    with path.open("rb") as file:
        while chunk := file.read(_PART_BYTES):
            parts.append(hashlib.md5(chunk, usedforsecurity=False))
    if len(parts) <= 1:
        return (parts[0] if parts else hashlib.md5(usedforsecurity=False)).hexdigest()
    joined = hashlib.md5(b"".join(part.digest() for part in parts), usedforsecurity=False)
    return f"{joined.hexdigest()}-{len(parts)}"
