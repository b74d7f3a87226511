"""Every hour has a row that says what became of it."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from resources.datasets import ARTICLE_CHANGES, ENTITY_CHANGES
from resources.tables import NO_SNAPSHOT, HourState
from resources.warehouse import HourStatus
from resources.warehouse.read.coverage import health
from tests.builds import ask


@pytest.fixture
def status(lake):
    def make(hour, state, reason=None, project="enwiki", namespace=0):
        return HourStatus(lake.hour(hour), project, namespace, state, reason)

    return make


def states(warehouse, lake, project="enwiki"):
    rows = [row for row in warehouse.coverage(published=False) if row.project_id == project]
    return {(row.batch_hour - lake.hour(0)) / timedelta(hours=1): row.state for row in rows}


def load(lake, warehouse, hour, **more):
    warehouse.load_hour(lake.hour(hour), [lake.file(hour, [lake.change(1, "A", 60 * hour)], **more)])


def test_states_follow_one_another_and_what_is_loaded_stays_loaded(lake, warehouse, status, clock):
    with pytest.raises(ValueError, match=r"^Hour 2026-11-01T00:00Z of enwiki 0 cannot be .* no file for this hour"):
        warehouse.record_statuses([status(1, HourState.ABSENT), status(0, HourState.LOADED)])
    assert warehouse.coverage(published=False) == []
    assert warehouse.record_statuses([status(0, HourState.NOT_YET, "Not published yet.")]) == 1
    assert warehouse.record_statuses([status(0, HourState.NOT_YET, "Not published yet.")]) == 0
    assert warehouse.record_statuses([status(0, HourState.NOT_YET, "It is late.")]) == 1
    assert warehouse.lacking_hours(ARTICLE_CHANGES) == [lake.hour(0)]
    assert warehouse.record_statuses([status(0, HourState.ABSENT, "Not in the list.")]) == 1
    (row,) = warehouse.coverage(published=False)
    told = ("absent", "Not in the list.", None, None, clock.now)
    assert (row.state, row.reason, row.row_count, row.load_count, row.checked_at) == told
    load(lake, warehouse, 0)
    (row,) = warehouse.coverage(published=False)
    assert (row.state, row.reason, row.row_count, row.reject_count, row.load_count) == ("loaded", None, 1, 0, 1)
    assert warehouse.record_statuses([status(0, HourState.PAST_RETENTION, "Gone upstream.")]) == 0
    assert warehouse.record_statuses([status(0, HourState.LOADED)]) == 0
    assert states(warehouse, lake) == {0: "loaded"}


def test_load_notes_the_statuses_of_the_others_in_the_same_transaction_and_hours_without_rows(lake, warehouse, status):
    file, absent = lake.file(0, []), status(0, HourState.ABSENT, "Not in the list.", project="frwiki")
    assert warehouse.load_hour(lake.hour(0), [file], [absent, status(0, HourState.MISSING)]).changed
    assert (states(warehouse, lake), states(warehouse, lake, "frwiki")) == ({0: "empty"}, {0: "absent"})
    for known, is_news in ((absent, False), (replace(absent, state=HourState.MISSING), True)):
        assert warehouse.load_hour(lake.hour(0), [file], [known]).changed is is_news
    warehouse.load_hour(lake.hour(1), [lake.file(1, [], rejects=[b"x"])])
    assert states(warehouse, lake) == {0: "empty", 1: "loaded"}


def test_gaps_are_filled_and_expire(lake, warehouse, clock, status):
    assert warehouse.fill_coverage(["enwiki"], [0], lake.hour(5)) == 0
    warehouse.record_statuses([status(1, HourState.NOT_YET)])
    load(lake, warehouse, 0)
    load(lake, warehouse, 4)
    load(lake, warehouse, 2, project="frwiki")
    load(lake, warehouse, 0, namespace=14)  # of which nobody asks
    assert warehouse.fill_coverage(["enwiki", "frwiki", "dewiki"], [0, 10], lake.hour(50)) == 5
    assert states(warehouse, lake) == {0: "loaded", 1: "past_retention", 2: "missing", 3: "missing", 4: "loaded"}
    assert states(warehouse, lake, "frwiki") == {2: "loaded", 3: "missing", 4: "missing"}
    assert warehouse.hours_of_others("enwiki", ARTICLE_CHANGES) == {lake.hour(hour) for hour in (2, 3, 4)}
    assert warehouse.hours_of_others("enwiki", ENTITY_CHANGES) == set()
    assert warehouse.fill_coverage(["enwiki", "frwiki"], [0], lake.hour(50)) == 0
    clock.now = lake.hour(51)
    assert warehouse.fill_coverage(["enwiki", "frwiki"], [0], lake.hour(51)) == 1
    assert states(warehouse, lake)[2] == "past_retention"
    told = {"missing": "still keeps it", "past_retention": "a snapshot closes the gap", "loaded": ""}
    assert all(told[row.state] in (row.reason or "") for row in warehouse.coverage(published=False))
    expired = [row.checked_at for row in warehouse.coverage(published=False) if row.state == "past_retention"]
    assert expired == [lake.hour(50), lake.hour(51)]
    load(lake, warehouse, 2)
    assert states(warehouse, lake)[2] == "loaded"
    rows = warehouse.coverage(lake.hour(1), lake.hour(3), published=False)
    hours = [(row.project_id, row.batch_hour) for row in rows]
    assert sorted(hours) == [("enwiki", lake.hour(1)), ("enwiki", lake.hour(2)), ("frwiki", lake.hour(2))]


def test_hours_that_were_mistyped_leave_nothing(lake, warehouse, status):
    """On a mirror in which nothing is, and on one that began later; whatever the service said of them."""
    gone = [status(hour, HourState.PAST_RETENTION, "The service no longer has 2026-11-01 00:00.") for hour in range(3)]
    warehouse.record_statuses([*gone, status(9_000, HourState.NOT_YET)])
    assert warehouse.fill_coverage(["enwiki"], [0], lake.hour(300)) == 4
    assert (states(warehouse, lake), warehouse.project_states(published=False)) == ({}, [])
    load(lake, warehouse, 300)
    warehouse.record_statuses(gone)
    later = status(301, HourState.PAST_RETENTION, "The service no longer has it.")
    early = replace(later, batch_hour=lake.hour(303), state=HourState.MISSING)
    warehouse.record_statuses([later, early, replace(later, batch_hour=lake.hour(300), namespace_id=10)])
    # the first hour of a mirror that begins with a snapshot, at 301:30, is a gap
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 18_100)]], "frwiki"))
    warehouse.record_statuses([replace(later, project_id="frwiki")])
    warehouse.fill_coverage(["enwiki"], [0], lake.hour(302))
    assert states(warehouse, lake) == {300: "loaded", 301: "past_retention"}
    assert states(warehouse, lake, "frwiki") == {301: "past_retention"}


def test_of_two_snapshots_the_newest_tells_what_is_wanted_and_quiet_hours_lead_to_the_older(lake, warehouse, status):
    for minute in (100, 255):
        warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", minute)]]))
    load(lake, warehouse, 5)
    assert warehouse.fill_coverage(["enwiki"], [0], lake.hour(6)) == 1
    assert states(warehouse, lake) == {4: "missing", 5: "loaded"}
    absent = [status(hour, HourState.ABSENT) for hour in range(1, 5)]
    warehouse.record_statuses([*absent, *(replace(one, namespace_id=10) for one in absent)])
    warehouse.record_statuses(absent, ENTITY_CHANGES)
    state, _ = warehouse.project_states(published=False)
    assert (state.first_gap_at, state.exact_until_at) == (None, lake.hour(6))
    assert state.exact_from_at == lake.hour(0) + timedelta(minutes=100, microseconds=1)
    # nothing of it is published
    [place] = health(warehouse, {ARTICLE_CHANGES: [("enwiki", 0)]}, lake.hour(7), 2, published=False).places
    assert (place.has_snapshot, [cell.state for cell in place.cells]) == (True, ["loaded", "unknown"])


_STATES = Path(__file__).with_name("project_states.txt").read_text().splitlines()
PROJECT_STATES = [json.loads(line) for line in _STATES if line.startswith("[")]


def test_project_state_tells_base_gap_and_exact_moments(lake, warehouse, status):
    last = {}
    for number, (snapshots, *_) in enumerate(PROJECT_STATES):
        for minute in snapshots:
            made = lake.snapshot([[lake.change(1, "A", minute)]], f"{number}wiki")
            last[f"{number}wiki"] = warehouse.load_snapshot(made)
    for hour in range(6):
        names = [f"{number}wiki" for number, (_, loaded, *_) in enumerate(PROJECT_STATES) if hour in loaded]
        files = [lake.file(hour, [lake.change(2, "B", 60 * hour)], name) for name in names]
        warehouse.load_hour(lake.hour(hour), files)
    for number, (_, _, statuses, _) in enumerate(PROJECT_STATES):
        warehouse.record_statuses([status(hour, HourState[name], project=f"{number}wiki") for hour, name in statuses])
    states = {state.project_id: state for state in warehouse.project_states(published=False)}
    assert len(states) == len(PROJECT_STATES)
    for number, (snapshots, *case, expected) in enumerate(PROJECT_STATES):
        found, newest = states[f"{number}wiki"], last.get(f"{number}wiki")
        own = {lake.hour(0) + timedelta(minutes=minute, microseconds=1): minute for minute in snapshots}
        moments = (found.first_gap_at, found.exact_from_at, found.exact_until_at)
        minutes = [moment and own.get(moment, (moment - lake.hour(0)) / timedelta(minutes=1)) for moment in moments]
        assert minutes == expected, (snapshots, case)
        if newest is not None:
            assert found.exact_from_at in own
            assert (found.base_snapshot, found.base_boundary_at) == (newest.snapshot_version, newest.boundary_at)
            continue
        assert (found.namespace_id, found.base_snapshot, found.reason) == (0, None, NO_SNAPSHOT)
        assert (found.absent_count, found.reject_count) == (None, None)
    assert "no snapshot: only changed pages are known. `wme run --snapshots`" in NO_SNAPSHOT


def test_what_the_files_leave_open_in_the_exact_range_is_counted(lake, warehouse, status, clock):
    for minute in (-300, 30, 100):  # nothing leads back to the first
        warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", minute)]]))
    with warehouse._connector.build("reject") as connection:
        connection.execute("UPDATE loads SET reject_count = 2 WHERE table_name = 'snapshot_articles'")
    warehouse.record_statuses([status(0, HourState.ABSENT), status(4, HourState.ABSENT), status(6, HourState.ABSENT)])
    for hour in (1, 2, 3, 5):
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, [], rejects=[b"x"] * hour)])
    load(lake, warehouse, 8, rejects=[b"x"])  # behind a gap
    (state,) = warehouse.project_states(published=False)
    # 20 minutes past midnight is the boundary of the older snapshot
    assert state.exact_from_at == lake.hour(0) + timedelta(minutes=30, microseconds=1)
    assert (state.exact_until_at, state.reason) == (lake.hour(7), None)
    assert (state.absent_count, state.reject_count) == (3, 1 + 2 + 3 + 5 + 2 * 2)
    # looked for again, for the last time where 47 hours have passed
    clock.now = lake.hour(47 + 4)
    warehouse.record_statuses([status(0, HourState.ABSENT), status(4, HourState.ABSENT), status(6, HourState.ABSENT)])
    (state,) = warehouse.project_states(published=False)
    assert state.absent_count == 1


def test_summary_of_hours(lake, warehouse, status, clock):
    rows = [lake.change(1, "A", 1), lake.change(1, "A", 1), lake.change(2, "B", 1, "delete")]
    rows.append(lake.change(3, "C", 1, "visibility-change"))
    file = lake.file(0, rows, rejects=[b"x"])
    warehouse.load_hour(lake.hour(0), [file], [status(0, HourState.ABSENT, project="frwiki")])
    load(lake, warehouse, 1)
    late = HourStatus(lake.hour(2), "enwiki", 0, HourState.EMPTY, checked_at=lake.hour(9))
    assert warehouse.record_statuses([late]) == 1
    query = "SELECT state, row_count, reject_count, load_count, checked_at FROM hours ORDER BY batch_hour, project_id"
    first = [("loaded", 3, 1, 1, clock.now), ("absent", None, None, None, clock.now)]
    assert ask(warehouse, query) == [*first, ("loaded", 1, 0, 1, clock.now), ("empty", 0, None, None, lake.hour(9))]
    enwiki, frwiki = warehouse.summary([lake.hour(0)], published=False)
    assert (enwiki.project_id, enwiki.state, enwiki.file_count, enwiki.row_count) == ("enwiki", "loaded", 1, 3)
    assert (enwiki.update_count, enwiki.delete_count, enwiki.visibility_change_count) == (2, 1, 1)
    assert (enwiki.duplicate_count, enwiki.reject_count) == (1, 1)
    assert (enwiki.archive_bytes, enwiki.ndjson_bytes, enwiki.lake_bytes) == (111, 2222, file.lake_bytes)
    assert (frwiki.project_id, frwiki.state, frwiki.file_count, frwiki.row_count) == ("frwiki", "absent", 0, 0)
    assert warehouse.summary([], published=False) == []
