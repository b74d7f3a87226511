"""What it takes to have a snapshot: as one file or in chunks, in units of quota and in bytes.

Belongs here: the decision, as a pure function over what the service and the disk said, and the sentence that gives its
reason.
Does not belong here: asking the service, looking at the disk (`snapshots`), fetching (`downloads`).

A snapshot of many chunks costs a unit of one counter for each of them; as one file it costs a single unit of another
counter, of which accounts have far fewer. Chunks can be worked on side by side, and one that has to be fetched again
costs one unit of the larger counter. Which is better depends on what is left of both and on the machine.

Source: the service's description of snapshots, chunks and their downloads, and of the account's counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from resources.enterprise import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from resources.enterprise.models import Chunk, Quota, Snapshot

Form = Literal["whole", "chunks"]

#: Below this a single file is fetched and read as fast as its pieces would be.
_SMALL_BYTES: Final = 64_000_000
#: From this on a download is long enough to break, and one core gains from chunks too.
_LARGE_BYTES: Final = 2_000_000_000
#: Chunks that take more than this share of the units left are too dear where the whole file is cheaper.
_DEAR: Final = 0.5
#: A share of the units left that nobody need save.
_CHEAP: Final = 0.01
_COUNTERS: Final[dict[Form, str]] = {"whole": "snapshot", "chunks": "chunk"}


@dataclass(frozen=True)
class Wishes:
    """What whoever plans wants.

    Attributes:
        form: As one file or in chunks; None: whatever is better.
        beyond_quota: Begin although the units that are left do not suffice: what fits is fetched and kept, the rest
            after the vendor has reset the counters.
        keep_free_bytes: Disk space to leave untouched.
        disk_factor: Disk that a byte of archive takes in the end, itself included.
    """

    form: Form | None = None
    beyond_quota: bool = False
    keep_free_bytes: int = 0
    disk_factor: float = 1.0


@dataclass(frozen=True)
class Disk:
    """What was found in the folder.

    Attributes:
        free_bytes: Free space.
        landed: Bytes of each complete file, by name.
        left: Bytes of each unfinished file, by the name it will have.
    """

    free_bytes: int
    landed: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """One file of a plan: the whole snapshot or one of its chunks, in the version that the plan pins.

    Attributes:
        record: What the service said of it.
        target: The file; its name holds the first eight digits of the version.
        size_bytes: About how large it is; exact where it is there.
        there_bytes: How many of them are there.
        is_landed: Whether it is there, complete.
    """

    record: Snapshot | Chunk
    target: Path
    size_bytes: int
    there_bytes: int
    is_landed: bool

    @property
    def identifier(self) -> str:
        """The service's name of it."""
        return self.record.identifier

    @property
    def version(self) -> str:
        """MD5 of its bytes."""
        return self.record.version

    @property
    def missing_bytes(self) -> int:
        """About how many bytes are to be fetched."""
        return 0 if self.is_landed else max(0, self.size_bytes - self.there_bytes)

    @property
    def unit_count(self) -> int:
        """Units of quota it costs; a part that was left needs a new signed address, which is a unit too."""
        return 0 if self.is_landed else 1


@dataclass(frozen=True)
class SnapshotPlan:
    """How a snapshot will be fetched, and what that costs.

    Attributes:
        snapshot: Its record; its version is pinned.
        form: One file, or chunks.
        pieces: The files, in the order of their numbers, with pinned versions.
        folder: Where they lie or shall lie.
        reason: Why this form; stands behind "because".
        quota: The counter it draws on, None where the account states none.
        free_bytes: Free disk space when it was planned.
        wishes: What was asked for.
    """

    snapshot: Snapshot
    form: Form
    pieces: tuple[Piece, ...]
    folder: Path
    reason: str
    quota: Quota | None
    free_bytes: int
    wishes: Wishes

    @property
    def identifier(self) -> str:
        """The snapshot."""
        return self.snapshot.identifier

    @property
    def product(self) -> str:
        """The counter it draws on: `snapshot` or `chunk`."""
        return _COUNTERS[self.form]

    @property
    def missing(self) -> tuple[Piece, ...]:
        """The pieces that are to be fetched."""
        return tuple(piece for piece in self.pieces if not piece.is_landed)

    @property
    def unit_count(self) -> int:
        """Units of quota it costs."""
        return sum(piece.unit_count for piece in self.pieces)

    @property
    def units_left(self) -> int | None:
        """Units the account has left; None: no limit is known."""
        return None if self.quota is None else self.quota.left

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, about."""
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def missing_bytes(self) -> int:
        """Bytes to fetch, about."""
        return sum(piece.missing_bytes for piece in self.pieces)

    @property
    def disk_bytes(self) -> int:
        """Disk space it takes, with what is made of the files later (`Wishes.disk_factor`)."""
        return int(self.missing_bytes * self.wishes.disk_factor)

    @property
    def fits_quota(self) -> bool:
        """Whether it can be finished with the units that are left."""
        return self.units_left is None or self.unit_count <= self.units_left

    @property
    def fits_disk(self) -> bool:
        """Whether the disk holds it, and the space that is to be left free."""
        return not self.missing or self.disk_bytes + self.wishes.keep_free_bytes <= self.free_bytes

    @property
    def manifest(self) -> Path:
        """The file that names the pieces of the complete set; written by `EnterpriseClient.confirm_snapshot`."""
        return self.folder / f"{self.identifier}.{self.snapshot.version[:8]}.set.json"

    @property
    def sentence(self) -> str:
        """What will be done, why, and what it costs."""
        return f"{self.identifier} {self._how}, because {self.reason}. {self.cost}."

    @property
    def _how(self) -> str:
        return "as one file" if self.form == "whole" else f"in {_count(len(self.pieces), 'chunk')}"

    @property
    def cost(self) -> str:
        """Units and bytes, as words without a full stop."""
        if not self.missing:
            return f"All of it is there ({spoken(self.size_bytes)}): it costs nothing"
        there = len(self.pieces) - len(self.missing)
        known = f" ({_count(there, 'file')} of {len(self.pieces)} there already)" if there else ""
        left = "no limit is known" if self.units_left is None else f"{self.units_left:,} left"
        return (
            f"It costs {_count(self.unit_count, f'{self.product} unit')} ({left}) and fetches "
            f"{spoken(self.missing_bytes)}{known}"
        )

    def check(self) -> None:
        """See that it can be finished.

        Raises:
            QuotaExceeded: It needs more units than are left, and nobody asked to begin all the same.
            DiskFull: The disk does not hold it.
        """
        if not self.fits_quota and not self.wishes.beyond_quota:
            raise errors.QuotaExceeded(
                f"Fetching {self.identifier} {self._how} takes {_count(self.unit_count, f'{self.product} unit')}, and the "
                f"account has {self.units_left:,} left (this way, because {self.reason}). Nothing was fetched. Wait until "
                "the vendor resets the counters (monthly), ask for more, or allow it to go beyond the quota: what fits is "
                "then fetched and kept, and the rest later."
            )
        if not self.fits_disk:
            floor = self.wishes.keep_free_bytes
            leave = f" and leaves {spoken(floor)} free" if floor else ""
            raise errors.DiskFull(
                f"Having {self.identifier} takes about {spoken(self.disk_bytes)} of disk{leave}, and {self.folder} has "
                f"{spoken(self.free_bytes)}. Nothing was fetched. Make room and run this again."
            )


def archive_name(record: Snapshot | Chunk) -> str:
    """Name of the file of a snapshot or chunk; another version has another name."""
    return f"{record.identifier}.{record.version[:8]}.tar.gz"


def plan_snapshot(
    snapshot: Snapshot,
    chunks: Sequence[Chunk],
    folder: Path,
    *,
    quotas: Mapping[str, Quota],
    disk: Disk,
    cores: int,
    wishes: Wishes,
) -> SnapshotPlan:
    """Decide how to fetch a snapshot. Pure: nothing is asked and nothing is touched.

    Args:
        snapshot: The service's record of it.
        chunks: The service's records of its chunks, in any order.
        folder: Where the files shall lie.
        quotas: The account's counters; one that is absent has no limit.
        disk: What lies there.
        cores: Cores that will read the files.
        wishes: What was asked for.

    Raises:
        InvalidRequest: Chunks are asked for, and the service has none that fit the snapshot's record.
    """
    agree = {chunk.identifier for chunk in chunks} == set(snapshot.chunks)
    whole = _Way("whole", _pieces((snapshot,), folder, disk), quotas.get("snapshot"))
    split = _Way("chunks", _pieces(tuple(sorted(chunks, key=_number)), folder, disk), quotas.get("chunk"))
    if wishes.form == "chunks" and (not chunks or not agree):
        problem = (
            "its record and the list of its chunks differ, as while it is exported"
            if snapshot.chunks
            else "it has none"
        )
        raise errors.InvalidRequest(
            f"{snapshot.identifier} cannot be fetched in chunks: {problem}. Nothing was fetched. Plan it as one file, or "
            "again later."
        )
    if wishes.form is not None:
        way, reason = (whole if wishes.form == "whole" else split), "that is what was asked for"
    elif not snapshot.chunks:
        way, reason = whole, "the service has no chunks of it"
    elif not agree:
        way, reason = whole, "its record and the list of its chunks differ, as while it is exported"
    else:
        way, reason = _better(whole, split, cores)
    return SnapshotPlan(
        snapshot=snapshot,
        form=way.form,
        pieces=way.pieces,
        folder=folder,
        reason=reason,
        quota=way.quota,
        free_bytes=disk.free_bytes,
        wishes=wishes,
    )


def check_together(plans: Sequence[SnapshotPlan]) -> None:
    """See that several plans can be finished one after another, each of which was made as if it were alone.

    Raises:
        QuotaExceeded: Together they need more units than are left; a plan that may go beyond the quota does not count.
        DiskFull: The disk does not hold all of them.
    """
    for product in _COUNTERS.values():
        bound = [plan for plan in plans if plan.product == product and not plan.wishes.beyond_quota]
        units = sum(plan.unit_count for plan in bound)
        left = min((plan.units_left for plan in bound if plan.units_left is not None), default=units)
        if units > left:
            raise errors.QuotaExceeded(
                f"Fetching {_count(len(bound), 'snapshot')} takes {_count(units, f'{product} unit')} together, and the "
                f"account has {left:,} left. Nothing was fetched. Choose fewer, wait until the vendor resets the counters "
                "(monthly), or allow them to go beyond the quota: what fits is then fetched and kept, and the rest later."
            )
    missing = [plan for plan in plans if plan.missing]
    needed = sum(plan.disk_bytes for plan in missing)
    floor = max((plan.wishes.keep_free_bytes for plan in missing), default=0)
    free = min((plan.free_bytes for plan in missing), default=0)
    if needed + floor > free:
        leave = f" and leaves {spoken(floor)} free" if floor else ""
        raise errors.DiskFull(
            f"Having {_count(len(missing), 'snapshot')} takes about {spoken(needed)} of disk{leave}, and there are "
            f"{spoken(free)}. Nothing was fetched. Make room, or choose fewer."
        )


@dataclass(frozen=True)
class _Way:
    """One of the two ways to fetch a snapshot."""

    form: Form
    pieces: tuple[Piece, ...]
    quota: Quota | None

    @property
    def units(self) -> int:
        return sum(piece.unit_count for piece in self.pieces)

    @property
    def left(self) -> int | None:
        return None if self.quota is None else self.quota.left

    @property
    def fits(self) -> bool:
        return self.left is None or self.units <= self.left

    @property
    def share(self) -> float:
        """Share of the units left that it takes; more than 1 where it does not fit."""
        if self.left is None or self.units == 0:
            return 0.0
        return self.units / self.left if self.left else float("inf")

    @property
    def there_bytes(self) -> int:
        return sum(piece.there_bytes for piece in self.pieces)

    @property
    def missing_bytes(self) -> int:
        return sum(piece.missing_bytes for piece in self.pieces)

    @property
    def price(self) -> str:
        """Units it takes of those that are left."""
        counter = _COUNTERS[self.form]
        if self.left is None:
            return _count(self.units, f"{counter} unit")
        if self.fits:
            return f"{self.units:,} of the {_count(self.left, f'{counter} unit')} left"
        left = "none is" if self.left == 0 else f"{self.left:,} {'is' if self.left == 1 else 'are'}"
        return f"{_count(self.units, f'{counter} unit')} where {left} left"


def _better(whole: _Way, split: _Way, cores: int) -> tuple[_Way, str]:
    """The way to take, and why."""
    if split.units == 0 or whole.units == 0:
        way = split if split.units == 0 else whole
        return way, f"all of it is there {_in_form(way)}"
    if whole.fits != split.fits:
        way, other = (whole, split) if whole.fits else (split, whole)
        return way, f"{_in_form(other)} it would take {other.price}"
    if not whole.fits:
        return split, f"as one file it would take {whole.price}, while chunks can be fetched in part"
    if whole.there_bytes != split.there_bytes and whole.missing_bytes != split.missing_bytes:
        way = min(whole, split, key=lambda w: w.missing_bytes)
        return way, f"{spoken(way.there_bytes)} of it are there {_in_form(way)} already"
    return _cheaper(whole, split, cores)


def _cheaper(whole: _Way, split: _Way, cores: int) -> tuple[_Way, str]:
    """The way to take where both can be finished and neither was begun."""
    size = max(whole.missing_bytes, split.missing_bytes)
    if len(split.pieces) > 1 and cores > 1 and size >= _SMALL_BYTES:
        gain = f"{cores} cores can work on several at once and each can be fetched again alone"
    elif len(split.pieces) > 1 and size >= _LARGE_BYTES:
        gain = f"a download of {spoken(size)} may break, and each chunk can be fetched again alone"
    else:
        gain = ""
    if gain and (split.share <= _DEAR or split.share <= whole.share):
        return split, f"{gain}, for {split.price}"
    if gain:
        return whole, f"chunks would take {split.price}, and one file takes {whole.price}"
    if split.share < whole.share and whole.share > _CHEAP:
        return split, f"that takes {split.price}, and one file would take {whole.price}"
    return whole, f"chunks of {spoken(size)} in all would gain nothing on {_count(cores, 'core')}"


def _in_form(way: _Way) -> str:
    return "as one file" if way.form == "whole" else "in chunks"


def _pieces(records: Sequence[Snapshot | Chunk], folder: Path, disk: Disk) -> tuple[Piece, ...]:
    return tuple(_piece(record, folder, disk) for record in records)


def _piece(record: Snapshot | Chunk, folder: Path, disk: Disk) -> Piece:
    name = archive_name(record)
    landed = disk.landed.get(name)
    return Piece(
        record=record,
        target=folder / name,
        size_bytes=record.approximate_bytes if landed is None else landed,
        there_bytes=disk.left.get(name, 0) if landed is None else landed,
        is_landed=landed is not None,
    )


def _number(chunk: Snapshot | Chunk) -> tuple[int, str]:
    """Chunks in the order of their numbers; the service lists them in the order they were made."""
    tail = chunk.identifier.rpartition("_")[2]
    return (int(tail) if tail.isdecimal() else -1), chunk.identifier


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def spoken(size: int) -> str:
    """Bytes for people, in decimal units as the service counts."""
    for name, unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} B"
