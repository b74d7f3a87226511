"""Declarations of injected faults, and functions that damage archives. `api.middleware` applies all other faults.

`data/faults.yaml` lists the fault kinds and their details.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import os
import tarfile
import threading
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, get_args

from resources.sandbox.files import read_yaml

#: Key in a request's ASGI scope for the fault that damages the archive in the response.
DAMAGE = "sandbox.damage"
#: Key in a request's ASGI scope that is set if the signed URL in the response must be expired.
EXPIRED = "sandbox.expired"

Where = Literal["api", "objects"]

_TABLE = read_yaml("faults.yaml")
#: Default port and default details of each fault kind. Archive faults have only details.
_ANSWERS: dict[str, tuple[Where, dict[str, Any]]] = _TABLE["answers"]
_ARCHIVES: dict[str, dict[str, Any]] = _TABLE["archives"]
ARCHIVE_KINDS = frozenset(_ARCHIVES)
KINDS = frozenset(_ANSWERS) | ARCHIVE_KINDS
#: Page id of the record with the huge body. No page in the world has this id.
HUGE_ARTICLE_ID = 2_147_483_647
_TYPES = {name: tuple(getattr(builtins, kind) for kind in kinds.split()) for name, kinds in _TABLE["types"].items()}


@dataclass
class Fault:
    """Fault for requests to matching paths. `count` is the number of affected requests, or None for all requests."""

    path: str
    kind: str
    method: str | None = None
    count: int | None = 1
    where: Where = "api"
    listed: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    identifier: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    hits: int = 0

    @property
    def remaining(self) -> int | None:
        """Return the number of requests that the fault will still affect, or None for all requests."""
        return None if self.count is None else self.count - self.hits

    def as_dict(self) -> dict[str, Any]:
        """Return the fault in the format of `/sandbox/faults`."""
        own = {name: value for name, value in vars(self).items() if name != "details"}
        return own | self.details


class Faults:
    """Thread-safe list of faults in creation order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(
        self, path: str = "*", method: str | None = None, kind: str = "status", count: int | None = 1, **details: Any
    ) -> Fault:
        """Add a fault for requests whose path matches the glob `path` and, if given, whose method is `method`.

        Raises:
            ValueError: The kind is unknown, or a detail is invalid.
        """
        fault = _checked(path, method, kind, count, **details)
        with self._lock:
            self._faults.append(fault)
        return fault

    def add_all(self, descriptions: Iterable[Mapping[str, Any]]) -> None:
        """Add the faults from the JSON body of `POST /sandbox/faults`, or none of them if one is invalid."""
        try:
            faults = [_checked(**description) for description in descriptions]
        except TypeError as error:
            raise ValueError(f"Invalid fault: {error}.") from None
        with self._lock:
            self._faults.extend(faults)

    def clear(self) -> None:
        """Remove all faults. All archives are served undamaged again."""
        with self._lock:
            self._faults.clear()

    def active(self) -> list[Fault]:
        """Return all faults, including faults that affect no further requests."""
        with self._lock:
            return list(self._faults)

    def take(self, where: Where, method: str, path: str) -> list[Fault]:
        """Return and count the faults for a request: all delays, and the first matching fault of another kind."""
        taken: list[Fault] = []
        with self._lock:
            for fault in self._faults:
                if fault.where != where or fault.listed or not _applies(fault, method, path):
                    continue
                if fault.kind != "delay" and any(t.kind != "delay" for t in taken):
                    continue
                fault.hits += 1
                taken.append(fault)
        return taken

    def listed_damage(self, path: str) -> Fault | None:
        """Return the `listed` fault of the archive with this download path, or None."""
        with self._lock:
            for fault in self._faults:
                if fault.listed and fnmatchcase(path, fault.path):
                    return fault
        return None


def _applies(fault: Fault, method: str, path: str) -> bool:
    if fault.remaining == 0 or (fault.method is not None and fault.method != method):
        return False
    return fnmatchcase(path, fault.path)


def damaged_archive(archive: Path, fault: Fault, folder: Path) -> Path:
    """Return a damaged copy of the archive, built in `folder` on first use. Identical inputs yield identical bytes."""
    name = f"{archive.stem}-{fault.kind}-{json.dumps(fault.details, sort_keys=True)}-{archive.stat().st_size}"
    key = hashlib.sha256(f"{archive}\0{name}\0{archive.stat().st_mtime_ns}".encode()).hexdigest()[:24]
    target = folder / f"{key}.tar.gz"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{key}.{os.getpid()}.part"
        part.write_bytes(_damage(archive.read_bytes(), fault.kind, fault.details))
        part.replace(target)
    return target


def _damage(content: bytes, kind: str, details: dict[str, Any]) -> bytes:
    if kind == "gzip_truncated":
        return content[: int(len(content) * details["keep"])]
    members = [] if kind == "empty" else _members(content)
    if kind == "empty_member":
        members = [(members[0][0], b"")]
    elif kind == "no_ndjson":
        members = [("README.txt", b"This archive holds no NDJSON member.\n")]
    elif kind.startswith("line_"):
        name, text = members[0]
        lines = text.splitlines(keepends=True)
        index = min(int(details["line"]), len(lines) - 1)
        rest = lines[index + 1 :] if details["replace"] else lines[index:]
        members[0] = (name, b"".join([*lines[:index], _bad_line(lines[index], kind, details), *rest]))
    return _archive(members)


def _bad_line(line: bytes, kind: str, details: dict[str, Any]) -> bytes:
    if kind == "line_malformed":
        # cut between characters, because invalid UTF-8 is a separate fault kind
        return line[: len(line) // 2].decode(errors="ignore").encode() + b"\n"
    if kind == "line_utf8":
        return line.replace(b'"name":"', b'"name":"\xff\xfe', 1)
    record: dict[str, Any] = json.loads(line)
    if kind == "line_type":
        # a string that cannot be converted to a number
        record["identifier"] = "not a number"
    else:
        body = record.setdefault("article_body", {})
        record |= {"identifier": HUGE_ARTICLE_ID, "name": "An extremely large page"}
        body["wikitext"] = "A long paragraph. " * (int(details["size"]) // 18)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _members(content: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        return [(info.name, file.read()) for info in tar if (file := tar.extractfile(info)) is not None]


def _archive(members: list[tuple[str, bytes]]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o766
            tar.addfile(info, io.BytesIO(text))
    # unlike the gzip module's header, this one is the same in all versions of Python
    return zlib.compress(plain.getvalue(), zlib.Z_BEST_SPEED, wbits=31)


def _checked(
    path: str = "*", method: str | None = None, kind: str = "status", count: int | None = 1, **details: Any
) -> Fault:
    if kind not in KINDS:
        raise ValueError(f"There is no fault of kind {kind!r}; the kinds are {', '.join(sorted(KINDS))}.")
    listed = bool(details.pop("listed", False))
    if listed and kind not in ARCHIVE_KINDS:
        raise ValueError(f"`listed` applies only to damaged archives, not to a fault of kind {kind!r}.")
    natural, known = ("objects", _ARCHIVES[kind]) if kind in ARCHIVE_KINDS else _ANSWERS[kind]
    where = details.pop("where", natural)
    if where not in get_args(Where) or (kind in ARCHIVE_KINDS and where != "objects"):
        raise ValueError(f"A fault of kind {kind!r} cannot be set at {where!r}.")
    if unknown := sorted(set(details) - set(known)):
        raise ValueError(
            f"A fault of kind {kind!r} does not support {', '.join(unknown)}, only {', '.join(sorted(known))}."
        )
    for name, value in details.items():
        wanted = _TYPES[name]
        if value is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)):
            raise ValueError(f"`{name}` is {value!r}; it must be {' or '.join(kind.__name__ for kind in wanted)}.")
    if details.get("status") is not None and details["status"] not in set(HTTPStatus):
        raise ValueError(f"`status` is {details['status']}, which is not an HTTP status.")
    if not isinstance(path, str) or not isinstance(method, str | None):
        raise ValueError("`path` and `method` must be strings.")  # noqa: TRY004 - what is sent is a value
    if count is not None and (not isinstance(count, int) or count < 1):
        raise ValueError(f"`count` is {count!r}; use a number of at least 1, or null for every request.")
    return Fault(
        path=path,
        method=method.upper() if method else None,
        kind=kind,
        count=count,
        where=where,
        listed=listed,
        details={**known, **details},
    )
