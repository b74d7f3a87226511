"""Stream source that sends prepared records in chunks, so the source is not the bottleneck.

Each event is unique and affects a different page, which is the most expensive case for a mirror. `python -m
benchmarks.stream_source LINES RATE` prints its port and exits when its standard input is closed. Each connection
receives its `parts` endlessly, starting at their `offsets` or at 0. RATE is the number of events per second of all ten
parts together, or 0 for no limit.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workload import build, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
_PARTS, _EACH = 10, 5
_OWN = (
    b' %d","identifier":%d,"event":{"type":"update","identifier":"%08x-0000-4000-8000-%012x",'
    b'"date_published":"%sZ","partition":%d,"offset":%d}'
)


def render(folder: Path, event_bytes: int, megabytes: float) -> tuple[Path, float]:
    """Write updates of about `event_bytes` from an archive of `megabytes`. Return the path and the mean length."""
    workload = unpack(build(folder, megabytes), folder)
    lines = []
    with workload.ndjson.open("rb") as plain:
        for line in plain:
            if event_bytes / 2 <= len(line) <= event_bytes * 3 / 2:
                record = json.loads(line)
                if record["event"]["type"] == "update":
                    lines.append(line.rstrip())
    if not lines:
        raise RuntimeError(f"No page in the archive has about {event_bytes:,} bytes. Choose another event size.")
    path = folder / "events.ndjson"
    path.write_bytes(b"\n".join(lines))
    return path, sum(map(len, lines)) / len(lines)


@contextmanager
def serving(lines: Path, rate: float = 0) -> Iterator[str]:
    """Run the stream source in a child process and yield its URL."""
    command = [sys.executable, "-m", "benchmarks.stream_source", str(lines), str(rate)]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Return the constant parts of a record before and after its page identifier and event."""
    record = json.loads(line)
    name, *_ = (record.pop(key) for key in ("name", "identifier", "event"))
    before, after = (json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode() for one in (name, record))
    return b'{"name":' + before[:-1], b"," + after[1:] + b"\n"


def _answer(connection: socket.socket, records: list[tuple[bytes, bytes]], rate: float) -> None:
    with connection, contextlib.suppress(OSError):
        asked = _request(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        parts = asked["parts"]
        places = [_EACH * part + number for part in parts for number in range(_EACH)]
        offsets = [int(asked.get("offsets", {}).get(str(place), 0)) for place in places]
        pause = _PARTS / len(parts) / rate if rate else 0.0
        connection.sendall(_HEAD)
        due = time.monotonic()
        for number, (before, after) in zip(itertools.count(), itertools.cycle(records), strict=False):
            turn = number % len(places)
            if pause:
                late = time.monotonic() - due - pause
                due += pause + max(late, 0.0)
                time.sleep(max(-late, 0.0))
            now = datetime.now(UTC).isoformat(timespec="milliseconds")[:-6]
            place, offset = places[turn], offsets[turn]
            serial = 1 + offset * _PARTS * _EACH + place
            own = _OWN % (serial, serial, place, offset, now.encode(), place, offset)
            offsets[turn] += 1
            chunk = b"%x\r\n" % (len(before) + len(own) + len(after))
            _send(connection, [chunk, before, own, after, b"\r\n"])


def _send(connection: socket.socket, pieces: list[bytes]) -> None:
    sent = connection.sendmsg(pieces)
    if sent < sum(map(len, pieces)):
        connection.sendall(b"".join(pieces)[sent:])


def _request(connection: socket.socket) -> dict[str, Any]:
    """Read and return the request body."""
    with connection.makefile("rb") as file:
        size = 0
        for line in iter(file.readline, b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        found: dict[str, Any] = json.loads(file.read(size))
        return found


def _main(lines: str, rate: str) -> None:
    records = [_split(line) for line in Path(lines).read_bytes().split(b"\n")]
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, records, float(rate)), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
