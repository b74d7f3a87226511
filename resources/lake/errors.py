"""Lake errors. A line that cannot be converted is a reject, not an error."""

from pathlib import Path

from resources import errors, files
from resources.formatting import legible

#: Maximum number of characters that a message quotes from an archive's content.
_SHOWN = 800


class LakeError(errors.MirrorError):
    """A conversion stopped without writing to the lake."""


class ArchiveError(LakeError):
    """The archive is damaged, empty, or does not contain records.

    `path`, `member` and `offset` locate the fault. `offset` is in bytes, within the member or, if `member` is None,
    within the tar. The message has at most 2,000 characters, even if the archive is hostile.
    """

    def __init__(self, path: Path, what: str, member: str | None = None, offset: int = 0) -> None:
        self.path = path
        self.member = member = None if member is None else legible(member, _SHOWN)
        self.offset = offset
        self._what = what = legible(what, _SHOWN)
        place = f"in member {member} at byte {offset}" if member is not None else f"at byte {offset} of the tar"
        super().__init__(
            f"{path}: {what} ({place}). Nothing was written to the lake. Remove the archive and fetch it again, if the "
            "service still offers it."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (ArchiveError, (self.path, self._what, self.member, self.offset))


class ConversionError(LakeError):
    """Rows and rejects do not add up to the number of lines, or a conversion's settings are invalid."""


class DiskFull(LakeError, errors.DiskFullError):  # noqa: N818  the name states the condition
    """The disk became full while a lake file was being written. The unfinished file was removed."""


class DamagedFileError(LakeError):
    """A lake file is damaged. `lake_path` is relative to the lake; `why` describes the damage."""

    def __init__(self, lake_path: str, why: str) -> None:
        self.lake_path, self.why = lake_path, legible(why, _SHOWN)
        super().__init__(
            f"The lake file {lake_path} cannot be read ({self.why}), so it was not compacted. Nothing was changed. If "
            "the archive still exists, the next publication converts it again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (DamagedFileError, (self.lake_path, self.why))


class ListError(LakeError):
    """A reference list is not a JSON array of objects that match the declaration."""


def landing_failed(error: OSError, path: Path) -> LakeError:
    """Return the error to raise for a lake file that could not be written."""
    # pyarrow sometimes raises OSError without errno, but always includes the number in the message
    if files.is_full(error) or "[errno 28]" in str(error):
        return DiskFull(
            f"The disk is full: {path.name} could not be written to {path.parent}. The unfinished file was removed; "
            "all finished files are kept. Free disk space, then run the command again."
        )
    return LakeError(
        f"{path.name} could not be written to {path.parent}: {errors.clause(error)}. The unfinished file was removed; "
        "all finished files are kept. Fix the cause, then run the command again."
    )
