"""A stream read by ours, which keeps every event in Parquet with its offsets, and by plain loops, each in a process of its own.

Belongs here: the contenders and their figures. Does not belong here: the source that they read.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import requests

from assets.steps.stream import STEP_SECONDS, Kept, keep
from benchmarks.measure import cpu_seconds
from benchmarks.stream_source import render, serving
from resources.datasets.live import LIVE_CHANGES
from resources.enterprise import EnterpriseClient, Service
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS, LOOP, INSERTING = "ours", "requests + json, stores nothing", "requests + json, row by row into DuckDB"
#: Messages a second of a connection that reads all parts, by the service's defaults.
THROTTLE = 50
#: The throttled stream is taken so often.
_TAKE_SECONDS = 0.05
_PIECE_BYTES = 1 << 16
#: Megabytes of pages from which those of the wanted size are taken.
_SAMPLE_MB = 60.0


@dataclass(frozen=True)
class Read:
    """What one contender did. Memory is the most of the resident set, in MiB, in the second quarter of the events and in the last."""

    events: int
    seconds: float
    cpu_seconds: float
    early_mib: float
    late_mib: float
    bytes_out: int = 0

    @property
    def events_s(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time for an event."""
        return self.cpu_seconds / self.events * 1e6

    def facts(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return dataclasses.asdict(self) | {"events_s": self.events_s, "cpu_us": self.cpu_us}


@dataclass(frozen=True)
class Streams:
    """The figures of all. `lag_ms`: of the throttled stream, from when an event was sent until it was taken: median, and of the slowest hundredth."""

    event_bytes: float
    found: dict[str, Read] = field(default_factory=dict)
    throttled_events_s: float = 0.0
    lag_ms: tuple[float, float] = (0.0, 0.0)

    def facts(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return dataclasses.asdict(self) | {"found": {name: read.facts() for name, read in self.found.items()}}


class _Memory:
    """The resident set while events come: the most in the second quarter of them, and in the last."""

    def __init__(self, events: int) -> None:
        self.events = events
        self._most = {1: 0.0, 3: 0.0}
        self._count = 0

    def add(self, count: int) -> None:
        """So many more have come."""
        self._count += count
        quarter = min(3, 4 * self._count // self.events)
        if quarter in self._most:
            self._most[quarter] = max(self._most[quarter], _resident_mib())

    @property
    def late(self) -> float:
        """In the last quarter (MiB)."""
        return self._most[3]

    @property
    def early(self) -> float:
        """In the second quarter; as late where few events came all at once."""
        return self._most[1] or self.late


def _resident_mib() -> float:
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / (1 << 20) if status.exists() else 0.0


def measure(
    folder: Path, events: int, event_bytes: int, throttled_seconds: float, say: Callable[[str], None]
) -> Streams:
    """All contenders on the same stream, one after the other; the loop that inserts reads a twentieth."""
    say("Making the events")
    lines, mean = render(folder, event_bytes, min(_SAMPLE_MB, events * event_bytes / 1e6))
    found = {}
    with serving(lines) as url:
        for name, count in ((OURS, events), (LOOP, events), (INSERTING, max(1, events // 20))):
            say(name)
            found[name] = _in_process(name, url, count)
    say("Throttled")
    with serving(lines, THROTTLE) as url:
        rate, lags = _throttled(url, folder, throttled_seconds)
    return Streams(mean, found, rate, lags)


def _in_process(name: str, url: str, events: int) -> Read:
    command = [sys.executable, "-m", "benchmarks.streams", name, url, str(events)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr[-2000:]}")
    return Read(**json.loads(done.stdout))


def _ours(url: str, memory: _Memory, folder: Path) -> tuple[int, int]:
    """What `wme stream` does, with its usual values, without showing it to analysts."""
    lake = LiveLake(Layout(folder), LIVE_CHANGES, ARTICLE_CHANGES)
    count = 0

    def say(kept: Kept) -> None:
        nonlocal count
        count += kept.step.row_count
        memory.add(kept.step.row_count)

    with _client(url, folder) as client:
        keep(
            client,
            lake,
            folder / "state",
            since=datetime.now(UTC) - timedelta(hours=1),
            clock=lambda: datetime.now(UTC),
            ended=lambda: count >= memory.events,
            say=say,
            warn=_fail,
            step_seconds=STEP_SECONDS,
        )
    return count, sum(path.stat().st_size for path in lake.files())


def _loop(url: str, memory: _Memory, _folder: Path) -> tuple[int, int]:
    for number, _ in enumerate(_records(url), 1):
        if number % 100 == 0 or number == memory.events:
            memory.add(100)
        if number == memory.events:
            break
    return memory.events, 0


def _inserting(url: str, memory: _Memory, folder: Path) -> tuple[int, int]:
    path = folder / "events.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE events (event_partition INTEGER, event_offset BIGINT, published_at TIMESTAMPTZ, type VARCHAR, "
            "project_id VARCHAR, article_id BIGINT, name VARCHAR, html VARCHAR, wikitext VARCHAR)"
        )
        for number, record in enumerate(_records(url), 1):
            event, body = record["event"], record.get("article_body", {})
            row = (
                *(event["partition"], event["offset"], event["date_published"], event["type"]),
                *(record["is_part_of"]["identifier"], record.get("identifier"), record["name"]),
                *(body.get("html"), body.get("wikitext")),
            )
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            memory.add(1)
            if number == memory.events:
                break
    return memory.events, path.stat().st_size


_CONTENDERS: dict[str, Callable[[str, _Memory, Path], tuple[int, int]]] = {
    OURS: _ours,
    LOOP: _loop,
    INSERTING: _inserting,
}


def _records(url: str) -> Iterator[dict[str, Any]]:
    body = {"parts": list(range(10))}
    headers = {"Accept": "application/x-ndjson"}
    with requests.post(f"{url}/v2/articles", json=body, headers=headers, stream=True, timeout=60) as response:
        # by default lines are looked for in every 512 bytes, which takes many times as long
        for line in response.iter_lines(chunk_size=_PIECE_BYTES):
            yield json.loads(line)


def _throttled(url: str, folder: Path, seconds: float) -> tuple[float, tuple[float, float]]:
    """Events a second and their lag through our client, where the source sends as many as the service does."""
    lags: list[float] = []
    until = time.monotonic() + seconds  # from before the source begins to send
    with _client(url, folder) as client, client.stream() as stream:
        while time.monotonic() < until or len(lags) < 2:
            for block in stream.take(_TAKE_SECONDS):
                now = datetime.now(UTC)
                for line in block.lines.splitlines():
                    event = json.loads(line)["event"]
                    stream.positions.committed({event["partition"]: event["offset"] + 1})
                    lags.append((now - datetime.fromisoformat(event["date_published"])) / timedelta(milliseconds=1))
        took = time.monotonic() - until + seconds
    return len(lags) / took, (statistics.median(lags), statistics.quantiles(lags, n=100)[-1])


def _client(url: str, folder: Path) -> EnterpriseClient:
    return EnterpriseClient(Service(url, url, url, anonymous=True), folder / "state")


def _fail(sentence: str) -> None:
    raise RuntimeError(sentence)


def _main(name: str, url: str, events: int) -> None:
    memory = _Memory(events)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        busy, started = cpu_seconds(), time.perf_counter()
        count, size = _CONTENDERS[name](url, memory, Path(folder))
        seconds, busy = time.perf_counter() - started, cpu_seconds() - busy
    read = Read(count, seconds, busy, memory.early, memory.late, size)
    sys.stdout.write(json.dumps(dataclasses.asdict(read)))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
