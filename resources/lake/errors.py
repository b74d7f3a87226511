"""Errors between an archive and the lake. A line that cannot be converted is no error but a reject."""

from __future__ import annotations

from pathlib import Path

from resources import errors, files
from resources.formatting import legible

#: Characters of what an archive says that a message repeats.
_SHOWN = 800


class LakeError(errors.MirrorError):
    """Something stopped a conversion; nothing was landed."""


class ArchiveError(LakeError):
    """The archive is damaged, empty, or not an archive of records.

    `path`, `member` (None outside a member) and `offset` (bytes into that member, or into the tar) say where. The
    message has 2,000 characters at most, whatever the archive holds.
    """

    def __init__(self, path: Path, what: str, *, member: str | None = None, offset: int = 0) -> None:
        self.path = path
        self.member = member = None if member is None else legible(member, _SHOWN)
        self.offset = offset
        self._what = what = legible(what, _SHOWN)
        place = f"in member {member} at byte {offset}" if member is not None else f"at byte {offset} of the tar"
        super().__init__(
            f"{path}: {what} ({place}). Nothing of it was landed. "
            "Remove the archive and fetch it again, if the service still offers it."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (_archive_error, (self.path, self._what, self.member, self.offset))


def _archive_error(path: Path, what: str, member: str | None, offset: int) -> ArchiveError:
    """Rebuild an ArchiveError that came from another process."""
    return ArchiveError(path, what, member=member, offset=offset)


class ConversionError(LakeError):
    """Rows in do not equal rows out and rejects, or the settings of a conversion cannot be met."""


class DiskFull(LakeError, errors.DiskFullError):  # noqa: N818  the name says what happened
    """The disk filled up while a lake file was written; the unfinished file was removed."""


class DamagedFileError(LakeError):
    """A damaged lake file. `lake_path` is relative to the lake, and `why` describes the damage."""

    def __init__(self, lake_path: str, why: str) -> None:
        self.lake_path, self.why = lake_path, legible(why, _SHOWN)
        super().__init__(
            f"The lake file {lake_path} cannot be read ({self.why}), so it was not compacted; nothing was changed. The "
            "next publication makes it again from the archive, if the archive has it."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (DamagedFileError, (self.lake_path, self.why))


class ListError(LakeError):
    """A list is not a JSON array of objects of the declared form."""


def landing_failed(error: OSError, path: Path) -> LakeError:
    """The error to raise for a lake file that could not be written."""
    # pyarrow raises OSError without errno in places, but always with the number in its text
    if files.is_full(error) or "[errno 28]" in str(error):
        return DiskFull(
            f"The disk is full: {path.name} could not be written to {path.parent}. The unfinished file was removed, "
            "everything landed before is kept. Free space, then run again."
        )
    return LakeError(
        f"{path.name} could not be written to {path.parent}: {errors.clause(error)}. The unfinished file was removed, "
        "everything landed before is kept. Mend the cause, then run again."
    )
