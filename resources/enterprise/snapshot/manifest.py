"""The file `IDENTIFIER.VERSION.set.json`: which files make up a snapshot. It is there only where all of them are complete."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field, TypeAdapter

from resources import files
from resources.datasets.paths import SET, is_of_snapshot
from resources.enterprise import errors
from resources.enterprise.models import Identifier, Snapshot, Version  # noqa: TC001  resolved at run time

if TYPE_CHECKING:
    from resources.enterprise.snapshot.plan import SnapshotPlan


class SetFile(BaseModel):
    """One file of a set.

    Attributes:
        name: Name of the file, which lies beside the manifest.
        identifier: The service's name of the snapshot or chunk.
        version: MD5 of its bytes.
    """

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

    Attributes:
        path: The manifest.
        snapshot: The service's record of the snapshot.
        files: Its files: one, or one for each chunk.
        exported_at: When the service made the snapshot; where its record does not say, when the set was complete (UTC).
    """

    path: Path
    snapshot: Snapshot
    files: tuple[SetFile, ...]
    exported_at: datetime


def write_set(plan: SnapshotPlan) -> None:
    """Write the manifest of a plan whose files are all there."""
    content = {
        "snapshot": plan.snapshot.model_dump(mode="json", exclude_none=True),
        "form": plan.form,
        "files": [
            {
                "name": piece.target.name,
                "identifier": piece.identifier,
                "version": piece.version,
                "size_bytes": piece.target.stat().st_size,
            }
            for piece in plan.pieces
        ],
    }
    files.write(plan.manifest, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


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
            f"{path} does not name the files of a snapshot ({error.what.rstrip('.')}). Nothing was changed. Remove it and fetch the snapshot again: files that are "
            "complete are not fetched twice."
        )
        raise wrong from None
    modified = content.snapshot.date_modified
    exported_at = datetime.fromtimestamp(path.stat().st_mtime, UTC) if modified is None else modified
    return SnapshotSet(path, content.snapshot, content.files, exported_at)


def read_sets(folder: files.StrPath) -> list[SnapshotSet]:
    """All sets of a folder, by name."""
    return [read_set(path) for path in sorted(Path(folder).glob(f"*.{SET}"))]


def superseded(plan: SnapshotPlan) -> tuple[Path, ...]:
    """Files of the same snapshot in the plan's folder that belong to another version or form, unfinished ones too.

    They may be removed once the plan's set is confirmed and nothing reads the other one any more.
    """
    endings = ("", ".json", ".part", ".part.json")
    kept = {piece.target.name + ending for piece in plan.pieces for ending in endings}
    kept.add(plan.manifest.name)
    if not plan.folder.is_dir():
        return ()
    return tuple(
        sorted(p for p in plan.folder.iterdir() if is_of_snapshot(p.name, plan.identifier) and p.name not in kept)
    )
