"""Where each partition of a stream goes on: behind what was committed, and where nothing was, at a moment.

Source: the service's reference for realtime streams: 50 partitions, ten parts of five, `offsets` and `since_per_partition` by partition, both of which
count only beside `parts`.
"""

from __future__ import annotations

import threading
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from resources.enterprise.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

PARTITIONS: Final = 50
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
        self._since = since.astimezone(UTC)
        self._offsets = dict(offsets)
        self._lock = threading.Lock()

    def committed(self, following: Mapping[int, int]) -> None:
        """Go on at these offsets; one that is lower than what was committed before changes nothing."""
        with self._lock:
            for partition, offset in following.items():
                self._offsets[partition] = max(offset, self._offsets.get(partition, offset))

    def next_offset(self, partition: int) -> int | None:
        """The offset that comes next; None: nothing is committed."""
        with self._lock:
            return self._offsets.get(partition)

    def body(self, parts: Sequence[int]) -> dict[str, Any]:
        """What asks for some parts from here on."""
        with self._lock:
            known = {str(one): self._offsets[one] for one in partitions_of(parts) if one in self._offsets}
        since = self._since.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        others = {str(one): since for one in partitions_of(parts) if str(one) not in known}
        body: dict[str, Any] = {"parts": list(parts)}
        return body | ({"offsets": known} if known else {}) | ({"since_per_partition": others} if others else {})
