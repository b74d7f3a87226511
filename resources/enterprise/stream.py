"""Stream consumer that returns blocks of records, tracks committed offsets, and can be stopped at any time.

Source: the service's reference for realtime streams (`/v2/articles` and other paths on the stream host). A stream has
ten parts with five partitions each. `offsets` and `since_per_partition` contain values for individual partitions, and
have no effect without `parts`. The service allows ten connections, one for each part. An open connection remains usable
after its token has expired.
"""

import contextlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Self

from resources.enterprise import errors
from resources.enterprise.account.authenticator import Authenticator
from resources.enterprise.errors import InvalidRequest
from resources.enterprise.http.answers import Answer, read_body
from resources.enterprise.http.bounds import Deadline
from resources.enterprise.http.transport import Transport
from resources.enterprise.http.workarounds import LIBRARY_ERRORS
from resources.enterprise.query import Kind, Query
from resources.enterprise.stream_connection import Connection, Inbox

PARTITIONS: Final = 50
#: Maximum offset. JSON parsers read all smaller integers exactly.
OFFSET_MAX: Final = 2**53 - 1
PARTS: Final = 10
_EACH: Final = PARTITIONS // PARTS


def partitions_of(parts: Iterable[int]) -> tuple[int, ...]:
    return tuple(_EACH * part + number for part in parts for number in range(_EACH))


def shares(connections: int) -> list[tuple[int, ...]]:
    """Distribute the ten parts over the connections. Raises InvalidRequest if the number of connections is invalid."""
    if not 1 <= connections <= PARTS:
        raise InvalidRequest(
            f"A stream cannot be read over {connections} connections, because it has {PARTS} parts and each connection "
            f"reads at least one part. Nothing was sent. Use 1 to {PARTS} connections."
        )
    return [tuple(range(first, PARTS, connections)) for first in range(connections)]


class Positions:
    """Next offset of each partition. Partitions without an offset begin at `since` (an aware datetime). Thread-safe."""

    def __init__(self, since: datetime, offsets: Mapping[int, int]) -> None:
        if since.tzinfo is None:
            raise InvalidRequest(
                f"The time {since.isoformat()} has no time zone. Nothing was sent. Pass an aware datetime in UTC."
            )
        if unknown := sorted(set(offsets) - set(range(PARTITIONS))):
            raise InvalidRequest(
                f"The partition {unknown[0]} does not exist. Nothing was sent. Use partitions 0 to {PARTITIONS - 1}."
            )
        self._since = since
        self._offsets = dict(offsets)
        self._reached: dict[int, datetime] = {}
        self._lock = threading.Lock()

    def committed(self, following: Mapping[int, int], reached: Mapping[int, datetime] | None = None) -> None:
        """Commit the next offsets, which may decrease if the service has renumbered its topic.

        `reached` maps partitions to their last events' publication times, which are used to request partitions by time.
        """
        with self._lock:
            self._offsets |= following
            self._reached |= reached or {}

    def body(self, parts: Sequence[int], latest: datetime | None = None, *, by_moment: bool = False) -> dict[str, Any]:
        """Build the request body for these parts, starting at the current positions, or at the last events' times.

        Times after `latest` are replaced by `latest`, because the service refuses times in the future.
        """
        with self._lock:
            known, reached = ({}, self._reached) if by_moment else (self._offsets, {})
            offsets = {str(one): known[one] for one in partitions_of(parts) if one in known}
            moments = {str(one): reached.get(one, self._since) for one in partitions_of(parts) if one not in known}
        others = {one: _text(moment if latest is None else min(moment, latest)) for one, moment in moments.items()}
        body = {"parts": list(parts), "offsets": offsets, "since_per_partition": others}
        return {name: value for name, value in body.items() if value}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_log = logging.getLogger(__name__)

_NDJSON: Final = "application/x-ndjson"
#: Maximum number of bytes in one read.
_PIECE_BYTES: Final = 1 << 18
#: Number of recent events that `records` remembers to detect duplicates.
_RECENT: Final = 1 << 16
#: Seconds between checks of the connections while no data is arriving.
_LOOK_SECONDS: Final = 1.0
#: Maximum seconds to wait for the connections to end.
_END_SECONDS: Final = 5.0


@dataclass(frozen=True)
class StreamOptions:
    """Options for a stream.

    Attributes:
        connections: Number of parallel connections (1 to 10). The service throttles each connection separately.
        room_bytes: Approximate memory limit in bytes for waiting records. At the limit, reading pauses. In total, the
            connections need this amount of memory, plus two records of maximum length (one waiting, one incomplete) and
            1.25 MiB per connection.
        record_bytes: Maximum length of a record. Longer records are skipped.
        give_up_seconds: Seconds without any open connection after which the stream ends with an error.
    """

    connections: int = 10
    room_bytes: int = 32 << 20
    record_bytes: int = 64 << 20
    give_up_seconds: float = 3_600.0


class Stream:
    """Reads a stream over several connections, and reopens connections that end.

    Every event is delivered at least once. A reopened connection resumes at the `committed` offsets, so uncommitted
    events are returned again with the same partitions and offsets. Leaving the context ends the stream. The `event`
    field is always requested. Raises InvalidRequest if the query is invalid for a stream.
    """

    def __init__(
        self,
        transport: Transport,
        auth: Authenticator,
        path: str,
        positions: Positions,
        query: Query | None,
        options: StreamOptions,
    ) -> None:
        if query is not None:
            query.check(Kind.STREAM)
        self._transport, self._account = transport, None if transport.service.anonymous else auth
        self._url, self._query = transport.service.realtime_url + path, {} if query is None else query.body()
        if self._query.get("fields") and "event.*" not in self._query["fields"]:
            # the `event` field contains the record's position
            self._query["fields"] = [*self._query["fields"], "event.*"]
        self._doing = f"read the stream {path}"
        self._options = options
        self.positions = positions
        self._inbox = Inbox(options.room_bytes)
        self.connections = [
            Connection(parts, self._pieces, self._inbox, options.record_bytes, transport.retry)
            for parts in shares(options.connections)
        ]

    def __enter__(self) -> Self:
        for connection in self.connections:
            connection.start()
        return self

    @property
    def reconnect_count(self) -> int:
        return sum(max(connection.opened - 1, 0) for connection in self.connections)

    @property
    def now(self) -> datetime:
        """Current time of the service, as far as the client can determine it."""
        return self._transport.clock.now()

    @property
    def too_long_count(self) -> int:
        """Number of skipped records that exceeded the maximum length."""
        return sum(connection.records.left_out for connection in self.connections)

    def __exit__(self, *_: object) -> None:
        """End all connections. Events that have already been returned can still be committed."""
        self._inbox.close()
        for connection in self.connections:
            connection.stop()
        until = time.monotonic() + _END_SECONDS
        for connection in self.connections:
            if connection.is_alive():
                connection.join(max(0.0, until - time.monotonic()))

    def read_again(self, moments: Mapping[int, datetime]) -> None:
        """Read partitions again from the given times, so that renumbered offsets cause no gaps."""
        self.positions.committed({}, moments)
        for connection in self.connections:
            if not moments.keys().isdisjoint(partitions_of(connection.parts)):
                connection.read_again()

    def take(self, seconds: float) -> list[bytes]:
        """Return all blocks received since the last call. If there are no blocks, wait up to `seconds` seconds.

        Each block contains complete records, one per line, in the order received on one connection.

        Raises EnterpriseError if the service refuses the stream, or if no connection can be opened for a long time.
        """
        until = time.monotonic() + seconds
        while True:
            self._look()
            left = until - time.monotonic()
            found = self._inbox.take(max(0.0, min(left, _LOOK_SECONDS)))
            if found or left <= 0:
                return found

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every record once, in order within each partition. This iterator never ends.

        Requesting the next record commits the previous record. Lines without a valid event are skipped with a warning.
        The service may renumber its events, so events below the committed offsets are yielded, except duplicates.
        """
        recent: OrderedDict[tuple[int, int, Any], None] = OrderedDict()
        while True:
            for block in self.take(_LOOK_SECONDS):
                for line in block.split(b"\n"):
                    if not line.strip():
                        continue
                    try:
                        record = json.loads(line)
                        place = _place(record)
                    except (ValueError, RecursionError) as error:
                        what = "A line of %s bytes in the stream is not an event and was skipped: %s"
                        _log.warning(what, f"{len(line):,}", error)
                        continue
                    if place in recent:
                        continue
                    yield record
                    recent[place] = None
                    if len(recent) > _RECENT:
                        recent.popitem(last=False)
                    self.positions.committed({place[0]: place[1] + 1})

    def _look(self) -> None:
        """Restart dead connections, and end the stream if no connection can be opened."""
        now = time.monotonic()
        failing = [connection for connection in self.connections if connection.is_failing(now)]
        for connection in self.connections:
            others = (one.heard_at for one in self.connections if one is not connection and one not in failing)
            connection.look(now, max(others, default=0.0))
        if len(failing) == len(self.connections):
            self._give_up(self._options.give_up_seconds)

    def check(self) -> None:
        """Raise ServiceUnavailable if every connection has failed and none has delivered a record.

        Connections on which the service is silent have not failed. Call this method at the end of a run, because the
        stream itself retries for `give_up_seconds`.
        """
        now = time.monotonic()
        if all(connection.is_failing(now) and not connection.has_delivered for connection in self.connections):
            self._give_up(0)

    def _give_up(self, seconds: float) -> None:
        """Raise ServiceUnavailable if all connections have been failing for at least this number of seconds."""
        now = time.monotonic()
        last = max(self.connections, key=lambda connection: connection.failing_since or now)
        if (failure := last.failure) is not None and (lasts := now - (last.failing_since or now)) >= seconds:
            raise errors.ServiceUnavailable(
                f"No connection to the stream could be opened for {seconds or lasts:,.0f} s. Last error: {failure} "
                "Committed events are kept. Restart the stream within 48 hours, because the service does not retain "
                "events for longer.",
                status=failure.status,
            )

    def _pieces(self, parts: tuple[int, ...], deadline: Deadline, by_moment: bool) -> Iterator[bytes]:
        """Open a connection and yield its bytes. The status and the headers arrive only with the first event.

        Raises BrokenAnswer if the connection breaks off, or EnterpriseError if the service refuses the request.
        """
        transport, account, doing = self._transport, self._account, self._doing
        body = self.positions.body(parts, self.now, by_moment=by_moment) | self._query
        begin = partial(transport.open, self._url, {"Accept": _NDJSON}, doing=doing, deadline=deadline, body=body)
        token = None if account is None else account.access_token()
        response = begin(token=token)
        if response.status_code == 401 and account is not None and token is not None:
            response.close()
            response = begin(token=account.renew(token))
        transport.clock.heard(response.headers)
        try:
            if response.status_code != 200 or "html" in response.headers.get("Content-Type", "").lower():
                content = read_body(response, transport.limits.refusal_bytes)
                answer = Answer(response.status_code, content, response.headers, 1)
                refusal = transport.html_error(200, doing) if answer.status == 200 else transport.error(answer, doing)
                refusal.retry_after = answer.retry_after
                raise refusal
            with contextlib.closing(response):
                # `stream` would wait for a full block if the body is not chunked
                while piece := response.raw.read1(_PIECE_BYTES, decode_content=True):
                    yield piece
        except LIBRARY_ERRORS as error:
            failure = transport.broken(error, self._url, doing)
        else:
            return
        # raised outside the handler, so that the library's exception, whose message contains the URL, is not attached
        raise failure


def _place(record: Any) -> tuple[int, int, Any]:
    """Return an event's partition, offset and identifier, or raise ValueError. The service omits zeros."""
    event = record.get("event") if isinstance(record, dict) else None
    if not isinstance(event, dict):
        raise ValueError("the line contains no event.")  # noqa: TRY004  of the content, like the errors of JSON
    partition, offset, identifier = event.get("partition", 0), event.get("offset", 0), event.get("identifier")
    if type(partition) is not int or not 0 <= partition < PARTITIONS:
        raise ValueError(f"event.partition is not a number from 0 to {PARTITIONS - 1}.")
    if type(offset) is not int or not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"event.offset is not a number from 0 to {OFFSET_MAX}.")
    if identifier is not None and not isinstance(identifier, str):
        raise ValueError("event.identifier is not a string.")
    return partition, offset, identifier
