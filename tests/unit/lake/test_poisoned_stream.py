"""A stream of poisoned events goes on, loses no good one, and recognizes each by partition, offset and identifier."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import timedelta

import pytest

from resources.lake import Layout
from tests.unit.lake.poisoned import NOW, ODD, REJECTED, Figures, event, line_of, play
from tests.unit.lake.test_live import lake_of, stored

SAMPLE, ALL = 24, 1_000


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path)


@pytest.mark.parametrize("kind", REJECTED)
def test_what_is_no_event_is_a_reject_and_the_events_of_its_step_are_kept(layout, kind):
    bad = REJECTED[kind](event(3, 8, "bad"))
    lines = [line_of(event(3, 7, "a")), bad, line_of(event(3, 9, "b"))]
    step = lake_of(layout).add([b"\n".join(lines) + b"\n"], NOW)
    assert (step.row_count, step.reject_count, dict(step.offsets)) == (2, 1, {3: 10})
    assert stored(layout) == Counter([(3, 7), (3, 9)])
    [path] = layout.lake.rglob("*.ndjson.gz")
    assert gzip.decompress(path.read_bytes()) == bad + b"\n"
    # on every start
    assert lake_of(layout).begin(NOW, NOW) == step


@pytest.mark.parametrize("kind", ODD)
def test_what_is_odd_and_an_event_all_the_same_is_kept(layout, kind):
    step = lake_of(layout).add([ODD[kind](event(3, 8, "odd")) + b"\n"], NOW)
    assert (step.row_count, step.reject_count, dict(step.offsets)) == (1, 0, {3: 9})


def test_each_reject_has_its_reason(layout):
    reasons = {
        "no date": "event.date_published is missing, so the event is of no hour.",
        "year 9999": "event.date_published is more than a day ahead.",
        "half a year ago": "event.date_published is more than 31 days ago.",
        "partition 51": "event.partition is not one of 0 to 49.",
        "offset of 2^53": "event.offset is not from 0 to 9007199254740991.",
        "no identifier": "event.identifier is missing, and no event can be recognized without it.",
        "empty identifier": "event.identifier is empty.",
        "long identifier": "event.identifier has more than 255 characters.",
    }
    lines = {reason: REJECTED[kind](event(3, 8, "bad")) for kind, reason in reasons.items()}
    lake_of(layout).add([b"\n".join(lines.values()) + b"\n"], NOW)
    [path], [beside] = (layout.lake.rglob(f"*.{kind}.gz") for kind in ("reasons", "ndjson"))
    found = [gzip.decompress(one.read_bytes()).splitlines() for one in (path, beside)]
    assert {reason.decode(): line for reason, line in zip(*found, strict=True)} == lines


def test_a_sample_of_poisoned_sequences(tmp_path):
    figures = Figures()
    for seed in range(SAMPLE):
        play(Layout(tmp_path / str(seed)), seed, figures)
    assert figures["sequences"] == SAMPLE
    assert (
        min(
            figures[name]
            for name in ("restarts", "spoiled states", "killed", "duplicate_count", "reject_count", "reset_count")
        )
        > 0
    )


@pytest.mark.soak
def test_all_poisoned_sequences(tmp_path, capsys):
    figures = Figures()
    for seed in range(ALL):
        play(Layout(tmp_path / str(seed)), seed, figures)
    with capsys.disabled():
        print(json.dumps(figures, indent=1))
