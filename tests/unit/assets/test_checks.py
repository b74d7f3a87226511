"""Checks: each holds on good data, and fails on exactly what it is there for."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import dagster as dg
import duckdb
import pytest

from assets import checks, coverage_checks, layers, lookups
from resources.adapters import ConfiguredEngine
from resources.datasets import ARTICLE_CHANGES as CHANGES
from resources.datasets import last_complete_hour
from resources.enterprise.errors import ServiceUnavailable
from resources.tables import NO_SNAPSHOT, HourState
from resources.warehouse import Comparison, HourStatus, LakeFileError, Warehouse
from tests.unit.assets.conftest import NEXT, record
from tests.unit.enterprise.conftest import HOUR
from tests.unit.warehouse.conftest import Lake

KEYS = {check.spec.name: check.spec.key for check in checks.of_files(CHANGES)}
REBUILD = (
    "Stop the runs, remove warehouse/build.duckdb from the data folder and run `wme rebuild`. The published file "
    "remains available."
)
LINES = round(1 / checks.REJECTS_SHARE)


def take(bench, *projects):
    run = bench.run(*projects)
    run.plan([HOUR], bench.client)
    list(run.ingest(HOUR, layers.keys(CHANGES), bench.client))
    return run


def answers(run, *names):
    return {one.check_name: one for one in checks.of_run(run, {KEYS[name] for name in names or KEYS})}


def failed(run):
    return {name for name, one in answers(run).items() if not one.passed}


def alter(bench, statement):
    with duckdb.connect(bench.warehouse.build_path) as connection:
        connection.execute("SET search_path = 'internal,main'")
        connection.execute(statement)


def test_good_hours_pass_every_check_and_only_what_is_asked_for_is_answered(bench):
    bench.serve("enwiki", 1, 2)
    bench.serve("frwiki", 1)
    run = take(bench, "enwiki", "frwiki")
    told = answers(run)
    assert list(told) == [name for name, one in told.items() if one.passed] == list(KEYS)
    files = dict.fromkeys(("archives_verified", "rows_accounted", "fields_known"), 2)
    hours = dict.fromkeys(("loaded_whole", "unique_key", "no_event_before_its_hour"), 1)
    looked_at = files | hours | {"rejects_share": 3, "agrees_with_stream": 0}
    assert {name: one.metadata["looked_at"].value for name, one in told.items()} == looked_at
    for name in KEYS:
        assert list(answers(run, name)) == [name]
    assert list(checks.of_run(run, set())) == []
    bench.serve("enwiki")
    assert failed(take(bench)) == set(), "an hour without a line has no share of rejects"


def test_damaged_archives_of_every_hour_and_exchanged_files_are_noticed(bench):
    bench.serve("enwiki", 1, 2)
    bench.serve("frwiki", 1)
    run = take(bench, "enwiki", "frwiki")
    # another hour of the same run, whose archive is damaged
    victim = next(one for one in run.archived[HOUR].archives if one.project_id == "frwiki")
    damaged = bench.data / victim.path.name
    damaged.write_bytes(victim.path.read_bytes()[:-1] + b"x")
    archives = (replace(victim, path=damaged, batch_hour=NEXT),)
    run.archived[NEXT] = replace(run.archived[HOUR], archives=archives)
    told = answers(run, "archives_verified")["archives_verified"]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert f"frwiki_namespace_0 of 2026-11-01 06:00 is damaged: {damaged} has the MD5 " in told.description
    assert (told.metadata["wrong"].value, told.metadata["looked_at"].value) == (1, 3)

    files = {one.project_id: one.path for one in run.conversions[HOUR]}
    shutil.copyfile(files["frwiki"], files["enwiki"])
    told = answers(run, "rows_accounted")["rows_accounted"]
    assert not told.passed
    assert told.description == (
        f"enwiki_namespace_0 of 2026-11-01 05:00: {files['enwiki']} contains 1 row, but the conversion counted 2. The "
        "archive is intact. Remove the Parquet file, then materialize lake/article_changes and "
        "warehouse/article_changes for this hour."
    )


@pytest.mark.parametrize(("good", "passes"), [(LINES - 1, True), (LINES - 2, False)])
def test_a_share_of_the_lines_may_be_rejected_and_no_more(bench, good, passes):
    bench.serve("enwiki", b"no record", *range(1, good + 1))
    run = take(bench)
    run.conversions = {NEXT: [Mock(row_count=9, reject_count=0)], **run.conversions}  # makes up for nothing
    told = answers(run, "rejects_share")["rejects_share"]
    found = (told.passed, told.severity, told.metadata["looked_at"].value)
    assert found == (passes, dg.AssetCheckSeverity.WARN, good + 10)
    if not passes:
        assert told.description.startswith(f"2026-11-01 05:00: 1 of {good + 1:,} records were rejected. `wme rejects` ")


def test_a_field_without_a_column_is_told_once_with_its_count(bench):
    bench.serve("enwiki", record(1, news="a"), record(2, news="b"))
    bench.serve("frwiki", record(1, "frwiki", news="c"))
    run = take(bench, "enwiki", "frwiki")
    run.conversions = {NEXT: run.conversions[HOUR], **run.conversions}  # in any order
    rejects, told = answers(run, "fields_known", "rejects_share").values()
    found = (told.passed, told.severity, rejects.metadata["looked_at"].value)
    assert found == (False, dg.AssetCheckSeverity.WARN, 6)
    assert told.description.startswith("news appears 6 times, first in 2026-11-01 05:00, with the value ")
    # so many findings are named, and no more is said of none
    assert checks.format_findings(["a."] * checks.NAMED, "Do it.").endswith("; a. Do it.")


#: What is wrong in DuckDB, by the check that finds it, and what the check says.
WRONG = {
    "loaded_whole": ("DELETE FROM article_changes WHERE article_id = 1", f"1 row instead of 2. {REBUILD}"),
    "unique_key": ("UPDATE article_changes SET event_id = 'enwiki-1', name = 'Page 1'", f"1 repeated event. {REBUILD}"),
    "no_event_before_its_hour": (
        "UPDATE article_changes SET event_at = batch_hour - INTERVAL 1 MICROSECOND WHERE article_id = 1",
        "1 event from before the hour. No action is needed: the events are stored with their own timestamps.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_in_duckdb_fails_its_own_check(bench, wrong):
    statement, sentence = WRONG[wrong]
    bench.serve("enwiki", 1, 2)
    run = take(bench)
    alter(bench, "UPDATE article_changes SET event_at = batch_hour")
    assert failed(run) == set(), "an event at the very start of its hour is of the hour"
    alter(bench, statement)
    assert (failed(run), answers(run, wrong)[wrong].description) == ({wrong}, f"2026-11-01 05:00: {sentence}")


def covered(bench, *projects, check=coverage_checks.last_48_hours_covered):
    parts = bench.resources(*projects)
    return check(enterprise=parts["enterprise"], warehouse=parts["warehouse"])


def test_gaps_and_places_that_lag_or_have_no_snapshot_are_named_up_to_a_number_and_all_are_counted(bench):
    newest = last_complete_hour(datetime.now(UTC))
    hours = [newest - timedelta(hours=back) for back in range(40)]
    bench.warehouse.record_statuses([HourStatus(hour, "enwiki", 0, HourState.EMPTY) for hour in hours], CHANGES)
    told = covered(bench)
    assert (told.passed, told.description) == (True, None)
    counts = {"missing": 0, "lagging": 0, "looked_at": 40, "before_the_mirror": 8}
    assert {name: one.value for name, one in told.metadata.items()} == counts
    reasons = {hour: f"Reason {'x' * max(number, 1)}." for number, hour in enumerate(hours[1:31])}
    lost = [HourStatus(hour, "enwiki", 0, HourState.MISSING, reason) for hour, reason in reasons.items()]
    bench.warehouse.record_statuses(lost, CHANGES)
    told = covered(bench, "enwiki", "frwiki")
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    counts = {"missing": 30, "lagging": 1, "looked_at": 40, "before_the_mirror": 56}
    assert {name: one.value for name, one in told.metadata.items()} == counts
    assert told.description.startswith("frwiki namespace 0: no hours have been loaded yet. ")
    assert told.description.count("Reason ") == 19
    assert " And 10 more. `wme run --from " in told.description

    told = covered(bench, "enwiki", "frwiki", check=coverage_checks.snapshots_loaded)
    assert (told.passed, told.metadata["missing"].value) == (False, 2)
    assert told.description == f"enwiki namespace 0, frwiki namespace 0: {NO_SNAPSHOT}."
    lake = Lake(bench.data)
    bench.warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 1)]]))
    told = covered(bench, check=coverage_checks.snapshots_loaded)
    assert (told.passed, told.description) == (True, None)


def test_pages_are_not_called_wrong_while_the_service_is_away_and_their_differences_are_counted(bench, monkeypatch):
    parts = bench.resources()
    parts["engine"] = ConfiguredEngine(parts["lake"].settings)
    monkeypatch.setattr(lookups, "reconcile", Mock(side_effect=ServiceUnavailable("The service did not respond.")))
    told = coverage_checks.articles_as_looked_up(dg.build_asset_check_context(), **parts)
    assert (told.passed, told.description) == (True, "Nothing was compared: The service did not respond.")
    monkeypatch.setattr(lookups, "reconcile", lambda *_: (7, 2, ["enwiki A: another"]))
    told = coverage_checks.articles_as_looked_up(dg.build_asset_check_context(), **parts)
    assert told.description == "enwiki A: another. Loading a newer snapshot repairs all of a project's pages."
    counts = {"compared": 7, "not_found": 2, "different": 1}
    assert {name: one.value for name, one in told.metadata.items()} == counts
    attention = coverage_checks.nothing_needs_attention(lambda: ["Low."] * (checks.NAMED + 1))()
    assert attention.metadata["attention_count"].value == checks.NAMED + 1


def test_what_the_stream_and_the_files_differ_in_is_a_warning_with_the_counts(bench, monkeypatch):
    bench.serve("enwiki", 1)
    run, middle = take(bench, "enwiki"), HOUR + timedelta(minutes=30)
    half = Comparison(HOUR, "enwiki", 0, HOUR, middle, 4, 3, 2, 1, 0, ("'A', event e: only in the stream",))
    full = Comparison(HOUR, "frwiki", 14, HOUR, NEXT, 9, 8, 0, 0, 5, ("'A', event f: size_bytes",))
    monkeypatch.setattr(Warehouse, "compare_stream", lambda _warehouse, hours: [half, full] * (hours == [HOUR]))
    run.archived[NEXT] = run.archived[HOUR]  # and not loaded
    answer = answers(run, "agrees_with_stream")["agrees_with_stream"]
    assert (answer.passed, answer.severity, answer.description.count("'A'")) == (False, dg.AssetCheckSeverity.WARN, 2)
    counts = "3 events in the stream and the file differ (2 only in the stream, 1 only in the file)"
    assert f"{counts}, for example 'A', event " in answer.description
    hour = "| 2026-11-01 05:00 |"
    rows = [f"{hour} frwiki | 14 | the complete hour | 9 | 8 | 0 | 0 | 5 |"]
    rows += [f"{hour} enwiki | 0 | part of the hour | 4 | 3 | 2 | 1 | 0 |"]
    assert answer.metadata["comparison"].value.splitlines()[2:] == rows
    monkeypatch.setattr(checks, "_COMPARED", 1)
    few = answers(run, "agrees_with_stream")["agrees_with_stream"].metadata
    assert (few["looked_at"].value, few["comparison"].value.splitlines()[2:]) == (2, rows[:1])
    # what was not compared is not said to agree, and the hours stay loaded
    monkeypatch.setattr(Warehouse, "compare_stream", Mock(side_effect=LakeFileError("A file cannot be read.")))
    answer = answers(run, "agrees_with_stream")["agrees_with_stream"]
    assert (answer.passed, answer.description[:21]) == (False, "A file cannot be read")
