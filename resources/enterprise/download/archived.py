"""Archive files: complete files with sidecars, batch listings, and snapshot manifests.

A sidecar is written before its file is renamed to its final name, so every complete file has a sidecar. A manifest
(`IDENTIFIER.VERSION.set.json`) lists a snapshot's files. The manifest is written when all the files are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from resources import files
from resources.enterprise import errors
from resources.enterprise.listing import Listing, list_of, sorted_out
from resources.enterprise.models import Batch, Identifier, Snapshot, Version

_SIDECAR_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Sidecar:
    """Metadata of an archived file. `version` is the file's MD5. `url_path` is never a signed URL."""

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
        """Return a file's sidecar, or None if the sidecar is missing or unreadable."""
        try:
            return files.read_json(cls.path(target), _SIDECAR, most=_SIDECAR_BYTES)
        except (FileNotFoundError, NotADirectoryError, files.UnusableFileError):
            return None

    def write(self, target: files.StrPath) -> None:
        files.write(self.path(target), _SIDECAR.dump_json(self, indent=2) + b"\n")


_SIDECAR: Final = TypeAdapter(Sidecar)


def read_listing(path: files.StrPath) -> Listing[Batch]:
    """Return a stored batch listing. Raises FileNotFoundError, or IntegrityError if the file is not a batch listing.

    If there is no sidecar for this version, `fetched_at` is the file's modification time.
    """
    path = Path(path)
    try:
        raw = files.read(path)
        records, odd = sorted_out(list_of(Batch).validate_json(raw))
    except (ValidationError, files.UnusableFileError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.what
        raise errors.IntegrityError(
            f"{path} is not a batch listing ({why}). Nothing was changed. Remove the file, and fetch the hour again "
            "while the service still retains it. Complete archives are not fetched again."
        ) from None
    sidecar = Sidecar.read(path)
    if sidecar is None or sidecar.version != files.new_md5(raw).hexdigest():
        return Listing(raw, records, "", datetime.fromtimestamp(path.stat().st_mtime, UTC), odd)
    return Listing(raw, records, sidecar.url_path, sidecar.fetched_at, odd)


def is_landed(target: files.StrPath, version: str) -> bool:
    """Return whether the complete file exists in this version, according to its sidecar and size."""
    sidecar, target = Sidecar.read(target), Path(target)
    if sidecar is None or sidecar.version != version or not target.is_file():
        return False
    return target.stat().st_size == sidecar.size_bytes


class SetFile(BaseModel):
    """A file in a set: its name in the manifest's folder, the identifier of its snapshot or chunk, and its MD5."""

    name: Annotated[str, Field(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\z", max_length=255)]
    identifier: Identifier
    version: Version


class SnapshotSet(BaseModel):
    """A completely fetched, consistent snapshot. Some of the snapshot's files may have been removed since then."""

    snapshot: Snapshot
    form: str | None = None
    files: tuple[SetFile, ...]


def read_set(path: files.StrPath) -> SnapshotSet:
    """Return the set that a manifest describes. Raises FileNotFoundError, or IntegrityError for a damaged manifest."""
    try:
        return files.read_json(Path(path), TypeAdapter(SnapshotSet))
    except files.UnusableFileError as error:
        raise errors.IntegrityError(
            f"{path} is not a snapshot manifest ({error.what.rstrip('.')}). Nothing was changed. Remove the file, and "
            "fetch the snapshot again. Complete files are not fetched again."
        ) from None
