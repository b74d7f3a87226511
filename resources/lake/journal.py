"""Journals of the service's page lookup responses, which are later packed into archives.

Each line of a journal contains a page's unmodified record and the request. `add` writes the line to disk before it
returns, so a killed process does not lose responses that consumed quota. The next run packs the journals of killed runs
and drops incomplete last lines.
"""

import json
import os
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from isal import igzip
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter

from resources import files
from resources.data_folder import removing
from resources.datasets import LOOKUPS
from resources.datasets.paths import hour_folders, name_of, safe
from resources.lake.archives import Archive, Layout
from resources.tables import Purpose

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SUFFIX = ".ndjson"
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_.-]*_namespace_[0-9]{1,9}"
#: Name of a journal: the identifier of its archive, and the start time of its run in microseconds.
_NAME = re.compile(rf"({_IDENTIFIER})\.([0-9a-f]{{1,14}})\.ndjson")


class _Note(BaseModel):
    """Content of a packed archive's JSON sidecar file."""

    identifier: Annotated[str, Field(pattern=rf"\A{_IDENTIFIER}\z")]
    version: Annotated[str, Field(pattern=r"\A[0-9a-f]{32}\z")]
    source_at: AwareDatetime


_NOTE = TypeAdapter(_Note)


@dataclass(frozen=True)
class Asked:
    """A page to look up, with project, namespace (0 if unknown), exact title and lookup purpose."""

    project_id: str
    namespace_id: int
    name: str
    purpose: Purpose


class Journals:
    """Thread-safe journals of one run, with one file per project and namespace.

    `source_at` is the timezone-aware start time of the run. The microseconds distinguish the run from other runs and
    from the start of an hour.
    """

    def __init__(self, layout: Layout, source_at: datetime) -> None:
        hour = source_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        self._folder = layout.archive_hour(LOOKUPS, hour)
        self._run = f"{(source_at - _EPOCH) // _MICROSECOND:x}"
        self._lock = threading.Lock()

    def add(self, asked: Asked, looked_up_at: datetime, record: bytes | None) -> None:
        """Store a response durably. The response is the record as JSON, or None if the service has no such page.

        The caller has verified that the record belongs to the requested project and has a valid namespace.
        """
        lookup = {
            "name": asked.name,
            "at": looked_up_at.isoformat(),
            "purpose": asked.purpose,
            "is_found": record is not None,
        }
        namespace = asked.namespace_id
        if record is None:
            place = {"is_part_of": {"identifier": asked.project_id}, "namespace": {"identifier": namespace}}
            record = json.dumps(place, ensure_ascii=False).encode()
        else:
            namespace = int(json.loads(record)["namespace"]["identifier"])
            # JSON allows line feeds only between tokens, where a space is equivalent
            record = record.strip().replace(b"\n", b" ")
        line = b'{"lookup":%b,%b\n' % (json.dumps(lookup, ensure_ascii=False).encode(), record[1:])
        identifier = f"{asked.project_id}_namespace_{namespace}"
        path = self._folder / f"{safe(identifier)}.{self._run}{_SUFFIX}"
        with self._lock:
            is_new = not path.exists()
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                files.sync(self._folder)


def pack(layout: Layout) -> None:
    """Pack all existing journals into archives. The journals must not be open in another run.

    Raises UnusableFileError for the first unusable journal, after packing all other journals.
    """
    errors = []
    for _, folder in hour_folders(layout.archive / LOOKUPS.archive):
        for journal in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                _pack(layout.root, journal)
            except files.UnusableFileError as error:
                errors.append(error)
    if errors:
        raise errors[0]


def archives(layout: Layout) -> Iterator[Archive]:
    """Yield the archives of all runs, ordered by run start time.

    Raises UnusableFileError for the first unusable archive, after yielding all other archives.
    """
    found, errors = [], []
    for _, folder in hour_folders(layout.archive / LOOKUPS.archive):
        for note in sorted(folder.glob("*.tar.gz.json")):
            try:
                found.append(_archive(note))
            except files.UnusableFileError as error:
                errors.append(error)
    yield from sorted(found, key=lambda one: (one.source_at, one.identifier))
    if errors:
        raise errors[0]


def _archive(note: Path) -> Archive:
    told, path = files.read_json(note, _NOTE), note.with_suffix("")
    if not path.exists():
        raise files.UnusableFileError(
            f"The archive of lookup responses {path} is missing. Restore the file from a backup, or remove {note.name}."
        )
    project, _, namespace = told.identifier.rpartition("_namespace_")
    place = told.identifier, told.version, None, project, int(namespace)
    return Archive(path, *place, source_at=told.source_at, dataset=LOOKUPS)


def _pack(root: Path, journal: Path) -> None:
    """Pack a journal's complete lines into an archive with reproducible bytes, and remove the journal."""
    if (named := _NAME.fullmatch(journal.name)) is None:
        raise files.UnusableFileError(
            f"{journal} does not have the name of a journal of lookup responses, so it was not loaded. Remove the file."
        )
    identifier, micros = named.groups()
    source_at = _EPOCH + int(micros, 16) * _MICROSECOND
    with files.opened(journal, follow=False) as lines:
        size = sum(len(line) for line in lines if line.endswith(b"\n"))
    if size:
        packed = journal.with_name(f".{journal.name}.tar.gz.tmp")
        # writing through a symbolic link with this name would truncate another file
        packed.unlink(missing_ok=True)
        with (
            packed.open("xb") as raw,
            igzip.IGzipFile("", "wb", fileobj=raw, mtime=0) as zipped,  # type: ignore[no-untyped-call]
            files.opened(journal, follow=False) as lines,
            tarfile.open(fileobj=zipped, mode="w|") as tar,
        ):
            member = tarfile.TarInfo(f"{identifier}_0{_SUFFIX}")
            member.size = size
            tar.addfile(member, lines)
        version = files.md5_of(packed)
        target = journal.with_name(name_of(identifier, version))
        note = {"identifier": identifier, "version": version, "source_at": source_at.isoformat()}
        files.put(packed, target)
        files.write(target.with_name(f"{target.name}.json"), json.dumps(note).encode())
    with removing(root) as may_remove:
        # if the journal remains, the next run packs it again into the same bytes
        if may_remove:
            journal.unlink()
