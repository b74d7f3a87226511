"""Where each partition of a stream goes on: behind what was committed, and where nothing was, at a moment.

Source: the service's reference for realtime streams: 50 partitions, ten parts of five, `offsets` and `since_per_partition` by partition, both of which
count only beside `parts`.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from resources.enterprise.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PARTITIONS: Final = 50
#: The largest offset that can be one: every whole number up to it is exact in all JSON.
OFFSET_MAX: Final = 2**53 - 1
PARTS: Final = 10
_EACH: Final = PARTITIONS // PARTS


def partitions_of(parts: Iterable[int]) -> tuple[int, ...]:
    """The partitions of some parts."""
    return tuple(_EACH * part + number for part in parts for number in range(_EACH))


def shares(connections: int) -> list[tuple[int, ...]]:
    """The ten parts, dealt to so many connections.

    Raises:
        InvalidRequest: There cannot be so many.
    """
    if not 1 <= connections <= PARTS:
        raise InvalidRequest(
            f"A stream cannot be read over {connections} connections: it has {PARTS} parts, one of which is the least that a "
            "connection reads. Nothing was sent."
        )
    return [tuple(range(first, PARTS, connections)) for first in range(connections)]


class Positions:
    """The next offset of each partition, as far as one is committed. Safe for threads.

    Args:
        since: Where partitions without an offset begin, aware.
        offsets: By partition the offset that comes next.
    """

    def __init__(self, since: datetime, offsets: Mapping[int, int]) -> None:
        if since.tzinfo is None:
            raise InvalidRequest(
                f"The moment {since.isoformat()} has no time zone. Nothing was sent. Pass an aware datetime in UTC."
            )
        if unknown := sorted(set(offsets) - set(range(PARTITIONS))):
            raise InvalidRequest(
                f"A stream has the partitions 0 to {PARTITIONS - 1}, and not {unknown[0]}. Nothing was sent."
            )
        self._since = since
        self._offsets = dict(offsets)
        self._reached: dict[int, datetime] = {}
        self._lock = threading.Lock()

    def committed(self, following: Mapping[int, int], reached: Mapping[int, datetime] | None = None) -> None:
        """Go on at these offsets, of which one may be lower than before: a topic that was numbered again goes on there.

        `reached`: when the last events before them were published, for those that are asked for by moments.
        """
        with self._lock:
            self._offsets |= following
            self._reached |= reached or {}

    def next_offset(self, partition: int) -> int | None:
        """The offset that comes next; None: nothing is committed."""
        with self._lock:
            return self._offsets.get(partition)

    def body(self, parts: Sequence[int], latest: datetime | None = None, *, by_moment: bool = False) -> dict[str, Any]:
        """Return the parameters that request some parts from here on.

        Args:
            parts: Of the stream.
            latest: No moment is later: the service refuses those of the future.
            by_moment: Whether to ask for what was published since the last events, and not by offsets.
        """
        with self._lock:
            known = (
                {} if by_moment else {one: self._offsets[one] for one in partitions_of(parts) if one in self._offsets}
            )
            reached = self._reached if by_moment else {}
            moments = {one: reached.get(one, self._since) for one in partitions_of(parts) if one not in known}
        others = {str(one): _text(moment if latest is None else min(moment, latest)) for one, moment in moments.items()}
        body: dict[str, Any] = {"parts": list(parts)}
        offsets = {str(one): offset for one, offset in known.items()}
        return body | ({"offsets": offsets} if offsets else {}) | ({"since_per_partition": others} if others else {})


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
