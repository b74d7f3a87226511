"""Files of the archive: their sidecars, the lists of hours, and the manifests of snapshots.

A sidecar is written before its file takes its name, so a file that is there always has one. A manifest
(`IDENTIFIER.VERSION.set.json`) names the files of a snapshot; it is written when all of them are complete.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from resources import files
from resources.datasets.paths import SET
from resources.enterprise import errors
from resources.enterprise.listing import Listing, list_of, sorted_out
from resources.enterprise.models import Batch, Identifier, Snapshot, Version

_BATCHES: Final = list_of(Batch)
_SIDECAR_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Sidecar:
    """The description of an archived file; `version` is the MD5 of its bytes, `url_path` never a signed URL."""

    identifier: str
    version: str
    size_bytes: int
    url_path: str
    fetched_at: datetime

    @staticmethod
    def path(target: files.StrPath) -> Path:
        target = Path(target)
        return target.with_name(target.name + ".json")

    @classmethod
    def read(cls, target: files.StrPath) -> Sidecar | None:
        """The sidecar of a file, or None where there is none that can be read."""
        try:
            return files.read_json(cls.path(target), _SIDECAR, most=_SIDECAR_BYTES)
        except (FileNotFoundError, NotADirectoryError, files.UnusableFileError):
            return None

    def write(self, target: files.StrPath) -> None:
        text = json.dumps(asdict(self) | {"fetched_at": self.fetched_at.isoformat()}, indent=2, ensure_ascii=False)
        files.write(self.path(target), text.encode() + b"\n")


_SIDECAR: Final = TypeAdapter(Sidecar)


def land_listing(listing: Listing[Any], target: Path) -> Sidecar:
    """Write a list as the service sent it, with a sidecar; replace an existing one completely or not at all."""
    sidecar = Sidecar(
        identifier=listing.url_path.removeprefix("/v2/"),
        version=files.md5(listing.raw),
        size_bytes=len(listing.raw),
        url_path=listing.url_path,
        fetched_at=listing.fetched_at,
    )
    sidecar.write(target)
    files.write(target, listing.raw)
    return sidecar


def read_listing(path: files.StrPath) -> Listing[Batch]:
    """The batch listing as it was landed.

    `fetched_at` is the time of the last change of the file where its sidecar is missing or of another version.

    Raises:
        FileNotFoundError: There is no such file.
        IntegrityError: It is no list of files.
    """
    path = Path(path)
    try:
        raw = files.read(path)
        records, odd = sorted_out(_BATCHES.validate_json(raw))
    except (ValidationError, files.UnusableFileError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.what
        wrong = errors.IntegrityError(
            f"{path} is not a batch listing ({why}). Nothing was changed. Remove it and fetch "
            "the hour again while the service keeps it; archives that are complete are not fetched twice."
        )
        raise wrong from None
    sidecar = Sidecar.read(path)
    if sidecar is None or sidecar.version != files.md5(raw):
        return Listing(raw, records, "", datetime.fromtimestamp(path.stat().st_mtime, UTC), 0, odd)
    return Listing(raw, records, sidecar.url_path, sidecar.fetched_at, 0, odd)


def is_landed(target: files.StrPath, version: str) -> bool:
    """Return whether the complete file is there in this version, by its sidecar and its size."""
    sidecar = Sidecar.read(target)
    if sidecar is None or sidecar.version != version:
        return False
    try:
        return Path(target).stat().st_size == sidecar.size_bytes
    except FileNotFoundError:
        return False


def is_intact(target: files.StrPath) -> bool:
    """Return whether the file's bytes are those its sidecar names (reads all of it)."""
    target = Path(target)
    sidecar = Sidecar.read(target)
    try:
        if sidecar is None or target.stat().st_size != sidecar.size_bytes:
            return False
        return files.md5_of(target) == sidecar.version
    except (FileNotFoundError, files.UnusableFileError):
        return False


class SetFile(BaseModel):
    """One file of a set: its name in the folder of the manifest, the snapshot or chunk, and the MD5 of its bytes."""

    name: Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=255)]
    identifier: Identifier
    version: Version


class _Content(BaseModel):
    snapshot: Snapshot
    files: tuple[SetFile, ...]


_CONTENT = TypeAdapter(_Content)


@dataclass(frozen=True)
class SnapshotSet:
    """A snapshot whose files were all fetched and belonged together. They may have been removed since.

    `path` is the manifest; `exported_at` (UTC) is when the service made the snapshot, or else when the set was
    complete.
    """

    path: Path
    snapshot: Snapshot
    files: tuple[SetFile, ...]
    exported_at: datetime


def read_set(path: files.StrPath) -> SnapshotSet:
    """The set that a manifest names.

    Raises:
        FileNotFoundError: There is no such manifest.
        IntegrityError: It is not what a client wrote.
    """
    path = Path(path)
    try:
        content = files.read_json(path, _CONTENT)
    except files.UnusableFileError as error:
        wrong = errors.IntegrityError(
            f"{path} does not name the files of a snapshot ({error.what.rstrip('.')}). Nothing was changed. Remove it "
            "and fetch the snapshot again: files that are complete are not fetched twice."
        )
        raise wrong from None
    modified = content.snapshot.date_modified
    exported_at = datetime.fromtimestamp(path.stat().st_mtime, UTC) if modified is None else modified
    return SnapshotSet(path, content.snapshot, content.files, exported_at)


def read_sets(folder: files.StrPath) -> list[SnapshotSet]:
    return [read_set(path) for path in sorted(Path(folder).glob(f"*.{SET}"))]
