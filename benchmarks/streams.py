"""Stream benchmark that compares simple loops with this package, which stores every event and its offset in Parquet."""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import requests

from assets.steps.stream import STEP_SECONDS, keep
from benchmarks.harness import Work, in_turn, least, measure
from benchmarks.report import Report
from benchmarks.stream_source import render, serving
from resources.datasets.live import LIVE_CHANGES, Step
from resources.enterprise import EnterpriseClient, Service
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS, LOOP, INSERTING = "ours", "requests + json, stores nothing", "requests + json, row by row into DuckDB"
#: Default rate of the service in events per second for a connection that reads all partitions.
THROTTLE = 50
_TAKE_SECONDS = 0.05
_CHUNK_BYTES = 1 << 16
#: Megabytes of generated pages. The benchmark selects pages of the requested size.
_SAMPLE_MB = 60.0


class _Memory:
    """Peak resident memory during the second and the last quarter of the events."""

    def __init__(self, events: int) -> None:
        self.events = events
        self._highest = {1: 0.0, 3: 0.0}
        self._count = 0

    def add(self, count: int) -> None:
        """Count received events."""
        self._count += count
        quarter = min(3, 4 * self._count // self.events)
        if quarter in self._highest:
            self._highest[quarter] = max(self._highest[quarter], _resident_mib())

    def facts(self, bytes_out: int) -> dict[str, float]:
        """Return the counts of a run. If the second quarter has no events, the last quarter's memory is used."""
        early, late = self._highest.values()
        return {"events": self._count, "early MiB": early or late, "late MiB": late, "MB out": bytes_out / 1e6}


def _resident_mib() -> float:
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / (1 << 20) if status.exists() else 0.0


def compare(
    folder: Path, events: int, event_bytes: int, rate: float, throttled_seconds: float, say: Callable[[str], None]
) -> Report:
    """Read the same stream with all contenders at `rate` events per second. The last contender reads fewer events."""
    say("Generating events")
    lines, mean = render(folder, event_bytes, min(_SAMPLE_MB, events * event_bytes / 1e6))
    report = Report(f"Events of {mean / 1000:,.1f} kB from another process", "events")
    counts = {OURS: events, LOOP: events, INSERTING: max(1, events // 20)}
    functions = {OURS: read_ours, LOOP: read_loop, INSERTING: read_inserting}
    with serving(lines, rate) as url:

        def run(name: str) -> Callable[[int], Any]:
            place = folder / f"{list(counts).index(name)}"
            return lambda _round: measure(Work(functions[name], (url, counts[name], place), dict))

        for name, costs in in_turn({name: run(name) for name in counts}, 1, say).items():
            cost = costs if isinstance(costs, str) else least(costs)
            report.add("stream", name, cost, 1.0 if isinstance(cost, str) else cost.facts["events"], ("stream", OURS))
    say("Measuring the lag at the service's rate")
    with serving(lines, THROTTLE) as url:
        rate, lags = _throttled(url, folder, throttled_seconds)
    report.notes |= {
        f"events per second, of {THROTTLE} sent": rate,
        "lag, ms (median)": statistics.median(lags),
        "lag, ms (99th percentile)": statistics.quantiles(lags, n=100)[-1],
    }
    return report


def read_ours(url: str, events: int, folder: Path) -> dict[str, float]:
    """Read and store events as `wme stream` does with default settings."""
    lake, memory, count = LiveLake(Layout(folder), LIVE_CHANGES, ARTICLE_CHANGES), _Memory(events), 0

    def say(step: Step, _lag_seconds: float | None) -> None:
        nonlocal count
        count += step.row_count
        memory.add(step.row_count)

    with _client(url, folder) as client:
        keep(
            client,
            lake,
            folder / "state",
            since=datetime.now(UTC) - timedelta(hours=1),
            clock=lambda: datetime.now(UTC),
            ended=lambda: count >= events,
            say=say,
            warn=_fail,
            step_seconds=STEP_SECONDS,
        )
    return memory.facts(sum(path.stat().st_size for path in lake.files()))


def read_loop(url: str, events: int, _folder: Path) -> dict[str, float]:
    """Read and parse events without storing them."""
    memory = _Memory(events)
    for _ in zip(range(events), _records(url), strict=False):
        memory.add(1)
    return memory.facts(0)


def read_inserting(url: str, events: int, folder: Path) -> dict[str, float]:
    """Read events and insert each event into DuckDB."""
    memory, path = _Memory(events), folder / "events.duckdb"
    folder.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE events (event_partition INTEGER, event_offset BIGINT, published_at TIMESTAMPTZ, "
            "type VARCHAR, project_id VARCHAR, article_id BIGINT, name VARCHAR, html VARCHAR, wikitext VARCHAR)"
        )
        for _, record in zip(range(events), _records(url), strict=False):
            event, body = record["event"], record.get("article_body", {})
            row = (
                *(event["partition"], event["offset"], event["date_published"], event["type"]),
                *(record["is_part_of"]["identifier"], record.get("identifier"), record["name"]),
                *(body.get("html"), body.get("wikitext")),
            )
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            memory.add(1)
    return memory.facts(path.stat().st_size)


def _records(url: str) -> Iterator[dict[str, Any]]:
    body = {"parts": list(range(10))}
    headers = {"Accept": "application/x-ndjson"}
    with requests.post(f"{url}/v2/articles", json=body, headers=headers, stream=True, timeout=60) as response:
        # the default chunk size of 512 bytes would be many times slower
        for line in response.iter_lines(chunk_size=_CHUNK_BYTES):
            yield json.loads(line)


def _throttled(url: str, folder: Path, seconds: float) -> tuple[float, list[float]]:
    """Return events per second and each event's lag (ms) in this package's client at the service's rate."""
    lags: list[float] = []
    until = time.monotonic() + seconds  # the client starts before the source sends the first event
    with _client(url, folder) as client, client.stream() as stream:
        while time.monotonic() < until or len(lags) < 2:
            for block in stream.take(_TAKE_SECONDS):
                now = datetime.now(UTC)
                for line in block.splitlines():
                    event = json.loads(line)["event"]
                    stream.positions.committed({event["partition"]: event["offset"] + 1})
                    lags.append((now - datetime.fromisoformat(event["date_published"])) / timedelta(milliseconds=1))
        took = time.monotonic() - until + seconds
    return len(lags) / took, lags


def _client(url: str, folder: Path) -> EnterpriseClient:
    return EnterpriseClient(Service(url, url, url, anonymous=True), folder / "state")


def _fail(sentence: str) -> None:
    raise RuntimeError(sentence)
