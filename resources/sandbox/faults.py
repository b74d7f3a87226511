"""Faults as data (what goes wrong, on which paths, how often), and damaged archives. `api.middleware` does the rest.

Kinds and details: `data/faults.yaml`.
"""

from __future__ import annotations

import builtins
import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
import uuid
import zlib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, get_args

from resources.sandbox.files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Set on a request: the damage that the archive it asks for is served with.
DAMAGE = "sandbox.damage"
#: Set on a request: the signed URL that it is answered with has already expired.
EXPIRED = "sandbox.expired"

Where = Literal["api", "objects"]

_TABLE = read_yaml("faults.yaml")
#: By kind: where it happens, and its details with their defaults; of damaged archives the details alone.
_ANSWERS: dict[str, tuple[Where, dict[str, Any]]] = _TABLE["answers"]
_ARCHIVES: dict[str, dict[str, Any]] = _TABLE["archives"]
ARCHIVE_KINDS = frozenset(_ARCHIVES)
KINDS = frozenset(_ANSWERS) | ARCHIVE_KINDS
#: Page id of the record with the huge body; no page of the world has it.
HUGE_ARTICLE_ID = 2_147_483_647
_TYPES = {name: tuple(getattr(builtins, kind) for kind in kinds.split()) for name, kinds in _TABLE["types"].items()}


@dataclass
class Fault:
    """One fault. `remaining` counts down with each request it hits; None: for ever."""

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
        """Return how many requests it will still hit."""
        return None if self.count is None else self.count - self.hits

    def as_dict(self) -> dict[str, Any]:
        """The fault as `/sandbox/faults` shows it."""
        own = {name: value for name, value in vars(self).items() if name != "details"}
        return own | self.details


class Faults:
    """The faults that are set, in order. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(
        self, path: str = "*", method: str | None = None, kind: str = "status", count: int | None = 1, **details: Any
    ) -> Fault:
        """Set a fault for requests whose path matches the glob `path` (and whose method is `method`, if given).

        Raises:
            ValueError: Unknown kind or detail; the message names what there is.
        """
        if kind not in KINDS:
            raise ValueError(f"There is no fault of kind {kind!r}; there are {', '.join(sorted(KINDS))}.")
        listed = bool(details.pop("listed", False))
        if listed and kind not in ARCHIVE_KINDS:
            raise ValueError(f"`listed` is for damaged archives, not for a fault of kind {kind!r}.")
        natural, known = ("objects", _ARCHIVES[kind]) if kind in ARCHIVE_KINDS else _ANSWERS[kind]
        where = details.pop("where", natural)
        if where not in get_args(Where) or (kind in ARCHIVE_KINDS and where != "objects"):
            raise ValueError(f"A fault of kind {kind!r} cannot be set at {where!r}.")
        if unknown := sorted(set(details) - set(known)):
            raise ValueError(
                f"A fault of kind {kind!r} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}."
            )
        for name, value in details.items():
            wanted = _TYPES[name]
            if value is not None and (
                not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)
            ):
                raise ValueError(f"`{name}` is {value!r}; it must be {' or '.join(kind.__name__ for kind in wanted)}.")
        if details.get("status") is not None and details["status"] not in set(HTTPStatus):
            raise ValueError(f"`status` is {details['status']}; HTTP has no such status.")
        if not isinstance(path, str) or not isinstance(method, str | None):
            raise ValueError("`path` and `method` must be strings.")  # noqa: TRY004 - what is sent is a value
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ValueError(f"`count` is {count!r}; it must be at least 1, or null for every request.")
        fault = Fault(
            path=path,
            method=method.upper() if method else None,
            kind=kind,
            count=count,
            where=where,
            listed=listed,
            details={**known, **details},
        )
        with self._lock:
            self._faults.append(fault)
        return fault

    def add_from(self, description: Mapping[str, Any]) -> Fault:
        """Set a fault from the JSON object of `POST /sandbox/faults`."""
        try:
            return self.add(**description)
        except TypeError as error:
            raise ValueError(f"This is not a fault: {error}.") from None

    def clear(self) -> None:
        """Remove all faults; archives with listed damage are served undamaged again."""
        with self._lock:
            self._faults.clear()

    def active(self) -> list[Fault]:
        """The faults that are set, also those that hit as often as they should."""
        with self._lock:
            return list(self._faults)

    def take(self, where: Where, method: str, path: str) -> list[Fault]:
        """The faults this request meets; each is counted.

        Of several that would decide the answer alone only the first is taken; a delay goes with anything.
        """
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
        """The damage that the archive behind a download path has itself."""
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
    """The archive with the fault's damage in it, made in `folder` at first use; equal input gives equal bytes."""
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
        # Cut between characters: invalid UTF-8 is a damage of its own.
        return line[: len(line) // 2].decode(errors="ignore").encode() + b"\n"
    if kind == "line_utf8":
        return line.replace(b'"name":"', b'"name":"\xff\xfe', 1)
    record: dict[str, Any] = json.loads(line)
    if kind == "line_type":
        # A number that became a text which is no number either.
        record["identifier"] = "not a number"
    else:
        body = record.setdefault("article_body", {})
        record |= {"identifier": HUGE_ARTICLE_ID, "name": "A page of extraordinary size"}
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
    return gzip.compress(plain.getvalue(), compresslevel=zlib.Z_BEST_SPEED, mtime=0)
