"""The benchmark of the stream runs: all contenders read the same events, and ours takes less than a plain insert of each."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import duckdb
import pytest

from benchmarks import endurance, streams
from benchmarks.stream_source import render, serving

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "benchmarks", "stream", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_events_are_read_by_all_and_measured():
    facts = json.loads(run("--events", 200, "--throttled", 0.5, "--json"))
    assert 10_000 < facts["event_bytes"] < 30_000
    ours, loop, inserting = (facts["found"][name] for name in (streams.OURS, streams.LOOP, streams.INSERTING))
    assert ours["events"] >= 200
    assert (loop["events"], inserting["events"]) == (200, 10)
    for read in (ours, loop, inserting):
        assert read["events_s"] > 0 < read["cpu_us"]
        assert read["early_mib"] > 0
    assert ours["bytes_out"] > 100_000 > loop["bytes_out"] == 0
    assert ours["cpu_us"] < inserting["cpu_us"]
    # the source keeps to the pace, whatever the machine
    assert 0 < facts["throttled_events_s"] < 80
    assert 0 < facts["lag_ms"][0] <= facts["lag_ms"][1]


def test_memory_of_a_long_run_is_sampled():
    facts = json.loads(run("--minutes", 0.1, "--rate", 100, "--json"))
    assert 0 < facts["shown"] <= facts["events"] <= 700
    whole, anonymous, own = (facts[name] for name in ("resident_mib", "anonymous_mib", "own_mib"))
    assert len(whole) == len(anonymous) == len(own) == endurance.PARTS
    assert all(0 < part < of_all for part, of_all in zip(anonymous, whole, strict=True))
    # the processes of publications are seen too
    assert all(part <= of_all for part, of_all in zip(own, whole, strict=True))
    assert max(whole) > max(own) + 50
    assert facts["cpu_seconds"] > 0


def test_every_event_is_stored_once(tmp_path):
    lines, _ = render(tmp_path, 20_000, 4)
    with serving(lines) as url:
        count, size = streams._ours(url, streams._Memory(200), tmp_path / "ours")
    path = str(tmp_path / "ours" / "lake" / "**" / "*.parquet")
    asked = "SELECT count(*), count(DISTINCT (event_partition, event_offset)), count(DISTINCT event_partition) FROM read_parquet(?)"
    rows, places, partitions = duckdb.execute(asked, [path]).fetchone()
    assert rows == places == count >= 200
    assert partitions == 50
    assert size > 0


def test_a_size_of_which_there_is_no_page_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="No page of the archive has about 10 bytes"):
        render(tmp_path, 10, 1)
