"""Damaged archives: a batch archive rebuilt with one thing wrong in it.

Lines are added beside the good ones unless `replace` is set: nothing of the content is lost, and a reader that keeps
the good lines and rejects the bad one ends up with the undamaged truth.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from resources.sandbox.faults.faults import Fault

#: Page id of the record with the huge body; no page of the world has it.
HUGE_ARTICLE_ID = 2_147_483_647


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
