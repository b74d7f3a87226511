"""Stream events: validation, duplicate detection, and the next offset of each partition.

A line that is not a valid event becomes a reject. Partition, offset and identifier together identify an event. Offsets
are not sufficient, because the service can renumber a topic, jump ahead, or go back. An event at or after its
partition's next offset is new. An earlier event is looked up among the recent events in memory, and then among the
events in the last days' files. These files are read once. If the event is not found, the event is also new, and the
partition has gone back.

The next offset is chosen conservatively: receiving an event again costs only a lookup. The first event with a smaller
offset moves the next offset back. Only the second of two consecutive events can move the next offset far ahead.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.datasets import RETENTION
from resources.datasets.live import OFFSET_MAX, PARTITIONS, PAST, Step, files_of
from resources.formatting import counted
from resources.lake.decode.records import RecordReader
from resources.lake.decode.rejected import merged, rejects_of

_PIECE_BYTES = 1 << 20
#: Maximum number of characters in an identifier. A UUID has 36.
_IDENTIFIER_MAX = 255


def events_in(
    piece: memoryview, reader: RecordReader, earliest: datetime, latest: datetime
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the events in `piece` published between `earliest` and `latest`, and the rejects."""
    rows = reader.read(piece)
    batch, rejects = rows.batch, rows.rejects
    if wrong := _faults(batch, earliest, latest):
        rejected, every = {*rejects["line_number"].to_pylist()}, enumerate(bytes(piece).split(b"\n"))
        # lines that became rows, with their line numbers
        lines = [(number, line) for number, line in every if number not in rejected and line.strip(b" \t\r")]
        more = ((lines[row][0], 0, reason, lines[row][1]) for row, reason in sorted(wrong.items()))
        rejects = merged([rejects, rejects_of(more)])
        batch = batch.filter(pa.array([row not in wrong for row in range(len(batch))], pa.bool_()))
    filled = {
        "batch_hour": pc.floor_temporal(batch.column("event_published_at"), unit="hour"),
        # the service omits zeros
        "event_partition": pc.fill_null(batch.column("event_partition"), 0),
        "event_offset": pc.fill_null(batch.column("event_offset"), 0),
    }
    for name, column in filled.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), column)
    return batch, rejects


def _faults(batch: pa.RecordBatch, earliest: datetime, latest: datetime) -> dict[int, str]:
    """Return the reject reason for each row that is not a valid event."""
    found: dict[int, str] = {}

    def mark(bad: pa.BooleanArray, reason: str) -> None:
        for row in pc.indices_nonzero(pc.fill_null(bad, False)).to_pylist():
            found.setdefault(row, reason)

    identifier, published = batch.column("event_id"), batch.column("event_published_at")
    partition, offset = batch.column("event_partition"), batch.column("event_offset")
    mark(pc.is_null(identifier), "event.identifier is missing, so a duplicate could not be detected.")
    mark(pc.equal(identifier, ""), "event.identifier is empty.")
    mark(
        pc.greater(pc.utf8_length(identifier), _IDENTIFIER_MAX),
        f"event.identifier has more than {_IDENTIFIER_MAX} characters.",
    )
    for numbers, name, most in ((partition, "partition", PARTITIONS - 1), (offset, "offset", OFFSET_MAX)):
        outside = pc.or_(pc.less(numbers, 0), pc.greater(numbers, most))
        mark(outside, f"event.{name} is not between 0 and {most}.")
    mark(pc.is_null(published), "event.date_published is missing, so the hour of the event is unknown.")
    early, late = (pa.scalar(moment, published.type) for moment in (earliest, latest))
    mark(pc.less(published, early), f"event.date_published is more than {PAST.days} days ago.")
    mark(pc.greater(published, late), "event.date_published is more than a day ahead.")
    return found


def pieces(blocks: Iterable[bytes]) -> Iterator[memoryview]:
    """Combine blocks into pieces of complete lines, of about 1 MiB each. Large blocks are not copied.

    Connections deliver one or two events at a time, and converting each event separately would need buffers for every
    column. Larger pieces would need a lot of memory if the lines were short.
    """
    held, size = list[bytes](), 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size >= _PIECE_BYTES:
            yield memoryview(b"".join(held))
            held, size = [], 0
    if held:
        yield memoryview(b"".join(held))


_log = logging.getLogger(__name__)

#: Maximum number of recent events in memory, which exceeds the number of events in a step.
_RECENT = 1 << 18
#: Maximum number of events (8 bytes each) loaded from files, which exceeds two days of the service's events.
_KNOWN = 5_000_000
#: Maximum age of files to search for events, and maximum age of a partition's reset. The service has no older events.
_LOOK_BACK = 2 * RETENTION
#: Plausible increase in the offset between two events in a partition, as a constant and an amount per hour boundary
#: between the events. A second event must confirm a larger jump.
_STEP, _STEP_OF_AN_HOUR = 1_000, 10_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3_600_000_000
_NAMES = ("event_partition", "event_offset", "event_id")
_Jump = tuple[int, int, int]


class Continuity:
    """Duplicate detector for the stream in a folder. Call `landed` after the events of `judge` have been stored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recent: dict[int, None] = {}
        self._known: list[pa.Array] | None = None
        #: Offset of each partition's last new event.
        self._last: dict[int, int] = {}
        #: Changes that the judged step will cause: keys of its events, `_last`, and the first partition that went back
        #: and the first that jumped far ahead, each with its old and new offsets.
        self._pending: tuple[list[int], dict[int, int], _Jump | None, _Jump | None] = [], {}, None, None

    def judge(self, rows: pa.Table, before: Step, now: datetime) -> tuple[pa.BooleanArray, Step]:
        """Return a mask of the new events, in order of arrival, and the previous step with the new stream position."""
        places = list(zip(*(rows[name].to_pylist() for name in _NAMES), strict=True))
        published = pc.cast(rows["event_published_at"], pa.int64()).to_pylist()
        # Python's hash function is sufficient, because keys never leave the process
        keys = [hash(place) for place in places]
        offsets, last = dict(before.offsets), dict(self._last)
        highest = {one: found for one, found in before.highest.items() if now - found[1] < _LOOK_BACK}
        newest = {one: (at - _EPOCH) // timedelta(microseconds=1) for one, at in before.published_at.items()}
        came_again = self._kept(places, keys, offsets, highest, now)
        seen: dict[int, None] = {}
        is_new: list[bool] = []
        published_by: dict[int, int] = {}
        resets = 0
        backward: _Jump | None = None
        forward: _Jump | None = None
        for (partition, offset, _), key, at in zip(places, keys, published, strict=True):
            following = offsets.get(partition)
            if key in seen or key in self._recent or key in came_again:
                is_new.append(False)
                # after a partition goes back, its subsequent events are received again
                if offset == following:
                    offsets[partition] = offset + 1
                continue
            is_new.append(True)
            seen[key] = None
            if following is not None and offset < following:
                resets += 1
                backward = backward or (partition, following, offset)
                offsets[partition] = offset + 1
            elif _is_near(partition, offset, at, offsets, newest):
                offsets[partition] = offset + 1
            elif 0 < offset - last.get(partition, offset) <= _STEP:
                forward = forward or (partition, following or 0, last[partition])
                offsets[partition] = offset + 1
            top = max(highest.get(partition, (0, now))[0], following or 0, offset + 1)
            if top <= offsets.get(partition, 0):
                highest.pop(partition, None)
            elif highest.get(partition, (0, now))[0] < top:
                highest[partition] = (top, now)
            last[partition] = offset
            newest[partition] = at
            published_by[partition] = max(at, published_by.get(partition, at))
        moments = {one: _EPOCH + timedelta(microseconds=at) for one, at in published_by.items()}
        self._pending = [*seen], last, backward, forward
        return pa.array(is_new, pa.bool_()), replace(
            before,
            duplicate_count=len(keys) - len(seen),
            reset_count=resets,
            offsets=offsets,
            highest=highest,
            published_at={**before.published_at, **moments},
        )

    def landed(self, step: Step) -> None:
        """Remember a stored step's events, and log resets and jumps of partitions."""
        keys, self._last, backward, forward = self._pending
        self._recent |= dict.fromkeys(keys)
        for key in [*self._recent][: max(0, len(self._recent) - _RECENT)]:
            del self._recent[key]
        if self._known is not None:
            self._known.append(pa.array(keys, pa.int64()))
            # Drop the keys if no partition has gone back, because files are then not searched. Also drop keys that have
            # accumulated for days; they will be read again.
            if not step.highest or sum(map(len, self._known)) > 2 * _KNOWN:
                self._known = None
        if backward is not None:
            partition, there, here = backward
            more = f", and {counted(step.reset_count - 1, 'time')} more" if step.reset_count > 1 else ""
            _log.warning(
                "The offsets of stream partition %s went back from %s to %s%s. Each received event is stored once. "
                "Events that the service does not resend will be missing until their hourly files are loaded.",
                *(partition, f"{there:,}", f"{here:,}", more),
            )
        if forward is not None:
            partition, there, here = forward
            _log.warning(
                "The offsets of stream partition %s jumped ahead from %s to %s. If the service restarted the "
                "numbering, its first events are not received. The `agrees_with_stream` check lists these events after "
                "their hourly files are loaded.",
                *(partition, f"{there:,}", f"{here:,}"),
            )

    def _kept(
        self,
        places: Sequence[tuple[int, int, str]],
        keys: Sequence[int],
        offsets: Mapping[int, int],
        highest: Mapping[int, tuple[int, datetime]],
        now: datetime,
    ) -> set[int]:
        """Return the keys of events that are not in memory but are in the last days' files."""
        until = dict(offsets)
        for partition, (offset, _) in highest.items():
            until[partition] = max(offset, until.get(partition, 0))
        wanted = {
            key
            for (partition, offset, _), key in zip(places, keys, strict=True)
            if offset < until.get(partition, 0) and key not in self._recent
        }
        if not wanted:
            return set()
        if self._known is None:
            self._known = self._read(now)
        asked = pa.array(wanted, pa.int64())
        return set(asked.filter(pc.is_in(asked, pa.chunked_array(self._known, pa.int64()))).to_pylist())

    def _read(self, now: datetime) -> list[pa.Array]:
        """Read the keys of the events in the last days' files, newest first."""
        found: list[pa.Array] = []
        for file in reversed(files_of(self._folder, now - _LOOK_BACK)):
            if sum(map(len, found)) >= _KNOWN:
                break
            try:
                rows = pq.read_table(file.path, columns=list(_NAMES), partitioning=None)
            except (OSError, ValueError) as error:
                _log.warning(
                    "The stream file %s cannot be read (%s). Events from this file that are received again will be "
                    "stored twice.",
                    file.path,
                    error,
                )
                continue
            found.append(
                pa.array(map(hash, zip(*(rows[name].to_pylist() for name in _NAMES), strict=True)), pa.int64())
            )
        return found


def _is_near(partition: int, offset: int, at: int, offsets: Mapping[int, int], newest: Mapping[int, int]) -> bool:
    """Return True if an offset plausibly follows its partition's last offset."""
    if partition not in offsets and offsets:
        partition = max(offsets, key=offsets.__getitem__)
    if partition not in offsets:
        return True
    hours = max(0, at // _HOUR - newest.get(partition, at) // _HOUR)
    return offset <= offsets[partition] + _STEP + hours * _STEP_OF_AN_HOUR
