"""A stream is kept step by step, by one process, and what may be missing is said."""

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import MagicMock, Mock, call

import pytest

from assets import streams
from assets.steps import stream
from assets.steps.stream import Gap, StreamBusyError, format_step, keep, loaded_hours, missed
from resources import datasets, files
from resources.datasets.live import Run, Step
from resources.enterprise import EnterpriseClient, Service, StreamOptions
from resources.errors import MirrorError
from resources.lake import Layout
from resources.lake.live import LiveLake
from resources.sandbox import Settings, running
from resources.tables import ARTICLE_CHANGES, HourState
from resources.warehouse import HourStatus, Warehouse
from tests.builds import lay

NOW = datetime(2026, 11, 1, 7, 30, tzinfo=UTC)


def test_what_has_come_is_kept_before_the_end_and_one_process_keeps_it(tmp_path):
    small = {"projects": ("enwiki",), "namespaces": (0,), "changes_per_hour": 30, "body_bytes": 300, "entities": 0}
    with running(Settings(state=tmp_path / "sandbox", now=NOW, stream_rate=0, **small)) as sandbox:
        urls = (sandbox.url, sandbox.url, sandbox.realtime_url)
        service = Service(*urls, sandbox.username, sandbox.password)
        since = NOW - timedelta(hours=2)
        wanted = list(sandbox.world.events("enwiki", since, NOW))
        lake = LiveLake(Layout(tmp_path), "live_changes", ARTICLE_CHANGES)
        steps, lags, warnings, merges = [], [], [], []
        lake.merge = lambda: merges.append(len(steps))

        def say(step, lag_seconds):
            steps.append(step)
            lags.append(lag_seconds)

        with EnterpriseClient(service, tmp_path / "state") as client:

            def run(**more):
                how = {"since": since, "clock": lambda: NOW, "step_seconds": 0.05, "warn": warnings.append}
                how |= {"ended": lambda: sum(one.row_count for one in steps) >= len(wanted), "say": say} | more
                keep(client, lake, tmp_path / "state", **how)

            def run_beside(step, lag_seconds):
                with pytest.raises(StreamBusyError, match="Another process is already reading this stream"):
                    run()
                say(step, lag_seconds)

            run(ended=lambda: bool(steps), say=run_beside)
            run(options=StreamOptions(connections=2))
            assert merges == list(range(1, len(steps) + 1))
    assert (sum(one.row_count for one in steps), warnings, lake.last().since) == (len(wanted), [], since)
    assert None not in lags


def test_what_the_service_no_longer_has_is_a_gap():
    step = Step(3, Path("3.parquet"), NOW, published_at={1: NOW - timedelta(hours=49), 2: NOW - timedelta(hours=50)})
    gap = missed(step, NOW)
    assert gap == Gap(NOW - timedelta(hours=50), NOW - timedelta(hours=48))
    five, six, seven = gap.hours
    assert (five, seven) == (NOW - timedelta(hours=50, minutes=30), NOW - timedelta(hours=48, minutes=30))
    told_all, told_some = gap.sentence({five, six, seven}), gap.sentence({six})
    for sentence in (told_all, told_some):
        assert "last read at 2026-10-30 05:30 UTC, and the service no longer retains the next events" in sentence
        assert "Events published until 2026-10-30 07:30 are missing from the stream." in sentence
    assert told_all.endswith("only visibility changes are missing. Hourly files do not contain visibility changes.")
    assert "The files for 2 hours in this range are not loaded (2026-10-30 05:00 to 2026-10-30 07:00)" in told_some
    assert "Run `wme run --from 2026-10-30T05 --to 2026-10-30T07`" in told_some
    assert "(2026-10-30 05:00). Run `wme run --from 2026-10-30T05 --to 2026-10-30T05`" in gap.sentence({six, seven})
    assert Gap(seven.astimezone(timezone(timedelta(hours=5.5))), seven + timedelta(hours=1)).hours == [seven]
    # a partition in which nothing happened is none
    assert missed(Step(3, Path("3.parquet"), NOW, published_at={1: NOW, 2: NOW - timedelta(days=9)}), NOW) is None


def test_an_hour_counts_as_loaded_when_nothing_of_what_is_mirrored_is_open(tmp_path):
    warehouse = Warehouse(lay(tmp_path / "data"))
    hours = [NOW.replace(minute=0) - timedelta(hours=back) for back in (3, 2, 1)]
    scope = [("enwiki", 0), ("frwiki", 0)]
    assert loaded_hours(warehouse, scope, hours) == set()
    states = {hours[0]: ("empty", "empty"), hours[1]: ("empty", "missing"), hours[2]: ("absent", "absent")}
    for hour, both in states.items():
        statuses = [HourStatus(hour, *place, HourState(state)) for place, state in zip(scope, both, strict=True)]
        warehouse.record_statuses(statuses, dataset=datasets.ARTICLE_CHANGES)
    warehouse.publish()
    assert loaded_hours(warehouse, scope, hours) == {hours[0], hours[2]}
    assert loaded_hours(warehouse, [*scope, ("dewiki", 0)], hours) == set()


def test_a_step_is_a_line():
    step = Step(3, Path("3.parquet"), NOW, 1_000, duplicate_count=2, other_count=30, reject_count=1, reset_count=4)
    counts = "30 from other projects, 2 duplicates, 1 record rejected, offsets reset 4 times"
    assert format_step(step, 1.25) == f"1,000 events stored, {counts}, 1.2 s behind."
    assert format_step(Step(3, Path("3.parquet"), NOW, 1), None) == "1 event stored."
    assert format_step(replace(step, other_count=0, reset_count=0, reject_count=0), None).endswith("d, 2 duplicates.")


def test_a_failed_merge_is_reported_once_and_again_after_it_has_worked():
    error = MirrorError("No room.")
    lake, said, known = Mock(**{"merge.side_effect": [error, error, 1, None, error]}), [], None
    for _ in range(4):
        known = stream._merge(lake, known, said.append)
    assert (said, lake.merge.call_count) == (["No room."] * 2, 5)


def test_each_step_commits_its_position_and_says_its_lag_and_a_gap_once(tmp_path, monkeypatch):
    since = NOW - timedelta(minutes=1)
    first = Step(1, Path("1"), since, offsets={1: 9, 2: 5, 3: 1}, published_at={1: NOW, 2: NOW})
    # the machine was suspended
    before, longer = (replace(first, published_at=dict.fromkeys((1, 2), NOW - timedelta(days=n))) for n in (3, 4))
    moments = {1: NOW - timedelta(hours=1), 2: NOW + timedelta(days=1)}
    second = replace(first, offsets={1: 7, 2: 6}, published_at=moments)
    told = {"begin.return_value": before, "merge.side_effect": MirrorError("No room."), "add.return_value": second}
    lake = Mock(**told, **{"last.side_effect": [before, before, longer, longer]})
    source = Mock(connections=[1, 2], reconnect_count=3, too_long_count=4, **{"take.return_value": [b"x", b"y"]})
    client, ends, said, warned = MagicMock(), iter([*[False] * 6, True]), [], []
    client.stream.return_value.__enter__.return_value = source
    trims = []
    monkeypatch.setattr(stream, "trim", lambda: trims.append(len(said)))
    monkeypatch.setattr(files, "held", held := Mock(wraps=files.held))
    # in each pass two bytes come: the second has enough, the fourth and the sixth are due, and the last is the end
    monkeypatch.setattr(stream, "STEP_BYTES", 4)
    monkeypatch.setattr(stream, "time", Mock(**{"monotonic.side_effect": [0, 0, 1, 2, 3, 301, 302, 602, 603]}))
    warn = lambda text: warned.append((text, client.stream.call_count))  # noqa: E731
    how = {"say": lambda *step: said.append(step), "warn": warn, "options": StreamOptions(connections=3)}
    keep(client, lake, tmp_path, since=None, clock=lambda: NOW, ended=ends.__next__, loaded=set, **how)
    assert (lake.begin.call_args, source.take.call_args_list) == (call(NOW, NOW), [*[call(0.2)] * 6, call(0.0)])
    assert held.call_args.kwargs["wait_seconds"] > 0, "the lock of a process that only asks whether it is held is brief"
    assert client.stream.call_args == call(since=since, offsets=first.offsets, options=how["options"])
    assert said == [(second, 0.0)] * 4, "an event in the future has no lag"
    assert trims == [1, 2, 3], "memory is released after the first of steps in a row"
    assert streams._metadata(Counter(events=20), time.monotonic() - 1e6) == {"events": 20, "events_per_second": 0.0}
    assert streams._metadata(Counter(events=20), time.monotonic() + 1)["events_per_second"] == 20_000
    assert source.positions.committed.call_args_list == [call(second.offsets, second.published_at)] * 4
    again = [call({1: one.published_at[1]}) for one in (before, before, longer, longer)]
    assert source.read_again.call_args_list == again
    told = [one.endswith("files do not contain visibility changes.") or one for one, _ in warned]
    assert told == [True, "No room.", True], "each gap, and each failure to merge, is told once"
    assert [begun for _, begun in warned] == [0, 1, 1], "a gap is told before the first event comes"
    assert [one.kwargs["always"] for one in lake.add.call_args_list] == [False, False, True, True]
    run, now = (lake.add.call_args.kwargs[name] for name in ("run", "service_now"))
    assert (run, now, source.check.call_args_list) == (Run(NOW, NOW, 2, 3, 4), source.now, [call()])
