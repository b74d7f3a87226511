"""When the file of analysts is made anew, and what a run does that does not make it."""

import functools
import os
import shutil
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock, call

import dagster as dg
import duckdb
import pytest

from assets import published
from assets.layers import HOUR as ONE_HOUR
from assets.steps import hour as batches
from assets.steps import rebuilding
from assets.steps.housekeeping import Cleaning, Replaced
from resources import datasets
from resources.adapters import ConfiguredEnterprise
from resources.settings import Settings
from resources.tables import HourState
from resources.warehouse import HourStatus, Publication, Warehouse, WarehouseBusyError, next_text
from tests.builds import close_all
from tests.unit.assets.conftest import record
from tests.unit.enterprise.conftest import HOUR

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)


def test_runs_publish_when_it_is_due_and_people_when_they_ask(bench, publish, monkeypatch):
    note(bench, 0, HourState.EMPTY)
    note(bench, 3, HourState.EMPTY)
    merge = functools.partialmethod(Warehouse.merge_row_groups, after=1)
    monkeypatch.setattr(Warehouse, "merge_row_groups", merge)
    made = publish(None)
    assert (made["changed"], bench.warehouse.published_path.exists()) == (False, False)
    # what runs do whether they publish or not: gaps are filled, small row groups are merged
    rows = bench.warehouse.coverage(published=False, dataset=datasets.ARTICLE_CHANGES)
    assert [row.state for row in rows] == ["empty", "missing", "missing", "empty"]
    assert (made["row_groups_merged"], publish(0)["changed"]) == (True, True)
    first = bench.warehouse.publication()
    note(bench, 0)
    bench.clock.advance(minutes=29)
    assert publish(30)["changed"] is False
    bench.clock.advance(minutes=1)
    assert publish(30)["changed"] is True
    assert bench.warehouse.publication().published_at == first.published_at + HALF_HOUR
    note(bench, 1)
    assert publish(None, tags={"wme/publish": "another word"})["changed"] is True
    assert bench.warehouse.sql("SELECT revision - merged_revision FROM internal.meta").rows == [(0,)]
    monkeypatch.setattr(Warehouse, "merge_row_groups", Mock(side_effect=WarehouseBusyError("It is in use.")))
    assert "row_groups_merged" not in publish(None)


def note(bench, number, state=HourState.MISSING):
    status = HourStatus(HOUR + number * ONE_HOUR, "enwiki", 0, state, "Because.")
    bench.warehouse.record_statuses([status], dataset=datasets.ARTICLE_CHANGES)


def test_files_that_cannot_be_cleaned_away_fail_no_run(bench, publish):
    note(bench, 0)
    journal = bench.data / "state" / "replaced.json"
    journal.parent.mkdir(parents=True, exist_ok=True)
    told = publish(0)
    assert told["freed_files"] == told["replaced_files"] == 0
    os.utime(journal, (0, 0))
    journal.with_name(f".{journal.name}.tmp").mkdir()
    told = publish(0)
    assert "freed_files" not in told
    assert told["next_publication"] == "by the next run"


@pytest.mark.parametrize(
    ("every", "last", "text"),
    [
        (None, NOON, "only on request, with `wme publish` (WME_PUBLISH=off)"),
        (timedelta(0), NOON, "by the next run"),
        (HALF_HOUR, None, "by the next run"),
        (HALF_HOUR, NOON, "by the first run after 2026-11-01 12:30 UTC (WME_PUBLISH=30)"),
        (3 * HALF_HOUR, NOON.astimezone(tz=None), "by the first run after 2026-11-01 13:30 UTC (WME_PUBLISH=90)"),
    ],
)
def test_people_are_told_when_it_is_published_next(every, last, text):
    assert next_text(None if last is None else Publication(last, 1), every) == text


def test_gaps_of_every_mirrored_dataset_are_recorded():
    enterprise, store = ConfiguredEnterprise(Settings(projects=("enwiki", "frwiki"), wikidata=True)), Mock()
    published.fill_coverage(enterprise, store)
    articles = call(["enwiki", "frwiki"], [0], dataset=datasets.ARTICLE_CHANGES)
    entities = call(["wikidatawiki"], [0, 120], dataset=datasets.ENTITY_CHANGES)
    assert store.fill_coverage.call_args_list == [articles, entities]


def test_an_hour_whose_run_failed_is_missing_if_nothing_else_is_known_of_it(bench, monkeypatch):
    note(bench, 1)
    monkeypatch.setattr(published, "failed_hours", lambda *_: {HOUR, HOUR + ONE_HOUR})
    published._note_failed(Mock(), bench.resources("enwiki", "frwiki")["enterprise"], bench.warehouse)
    rows = bench.warehouse.coverage(published=False)
    failed, told = "Its run failed before processing the hour.", [row.reason[:42] for row in rows]
    assert (told, {row.state for row in rows}) == ([failed, failed, "Because.", failed], {HourState.MISSING})


def load(bench, *pages, projects=("enwiki",)):
    bench.serve(projects[-1], *pages)
    archived = bench.fetch(*((project, 0) for project in projects))
    batches.load_hour(archived, bench.convert(archived), bench.warehouse)


def test_a_publication_says_what_it_published_and_what_was_removed(bench, publish, monkeypatch):
    load(bench, 1, record(9, event=record(9)["event"] | {"date_published": "2026-11-01T05:20:30Z"}))
    bench.warehouse.apply_changes()
    freed, waiting = (Replaced("a", size, "", NOON) for size in (5, 7))
    clean, due = Mock(return_value=Cleaning((freed,), (waiting, waiting))), Mock(return_value=True)
    monkeypatch.setattr(published, "clean", clean)
    monkeypatch.setattr(published, "is_due", due)
    told, path = publish(0), bench.warehouse.published_path
    numbers = {"freed_files": 1, "freed_bytes": 5, "replaced_files": 2, "replaced_bytes": 14, "lake_files": 1}
    numbers |= {"changed": True, "faulty_lake_files": 0, "bytes": path.stat().st_size, "dagster/uri": str(path)}
    assert {name: told[name] for name in numbers} == numbers
    assert clean.call_args.kwargs == due.call_args.kwargs == {"grace": timedelta(hours=24)}
    assert told["newest_articles"].splitlines()[2].startswith("| enwiki | Page 9 | 9009 | 2026-11-01 05:20:30 |")
    assert "| lookups | table | 0 |\n" in told["tables"]
    assert {"| articles | table | 2 |", "| article_bodies | view |  |"} <= {*told["tables"].splitlines()}
    clean.side_effect = WarehouseBusyError("Busy.")
    assert {*told} - {*publish(0)} == {name for name in told if name.startswith(("freed", "replaced"))}


def earlier(warehouse):
    """The layout of a release before: a published file with the tables of analysts alone, and another build file."""
    close_all()
    with duckdb.connect(warehouse.build_path) as build:
        build.execute("ALTER TABLE main.loads ADD COLUMN another INTEGER")
        build.execute("UPDATE internal.meta SET schema_version = 'of another release'")
    then = warehouse.published_path.rename(warehouse.published_path.with_name("then.duckdb"))
    with duckdb.connect(warehouse.published_path) as published:
        published.execute(f"ATTACH '{then}' AS today (READ_ONLY)")
        for table in ("about", "articles", "article_changes", "loads", "hours"):
            published.execute(f"CREATE TABLE {table} AS FROM today.{table}")
    then.unlink()


@pytest.mark.parametrize(
    ("damage", "replacement"),
    [
        (lambda it: it.build_path.write_bytes(b"no database"), "A copy of warehouse.duckdb takes its place"),
        (earlier, "A new file takes its place"),
        (lambda it: earlier(it) or shutil.rmtree(it.data / "lake"), "A new file takes its place"),
    ],
)
def test_a_build_file_that_was_replaced_is_completed_before_publication(bench, publish, caplog, damage, replacement):
    load(bench, 1)
    bench.warehouse.publish()
    load(bench, 1, projects=("enwiki", "frwiki"))  # of the same hour, and not published
    damage(bench.warehouse)
    assert bench.warehouse.pending_hours() == []
    assert (bench.warehouse.build_path.parent / "build.duckdb.damaged").exists()
    publish(0)
    assert bench.warehouse.is_complete()
    assert bench.warehouse.sql("SELECT count(*) FROM articles").rows == [(2,)]
    assert caplog.text.count(replacement) == 1
    assert "Reloaded 1 hour and 0 snapshot versions." in caplog.text


def test_a_build_file_is_incomplete_until_all_was_tried(bench, monkeypatch, caplog):
    with bench.warehouse._connector.build("lose data") as connection:
        connection.execute("UPDATE internal.meta SET is_complete = false")
    done = rebuilding.Rebuilt(hour_count=2, snapshot_count=1, failures=["One.", "Two."])
    monkeypatch.setattr(rebuilding, "load_archived", Mock(side_effect=[WarehouseBusyError("Busy."), done]))
    own = bench.resources()
    with pytest.raises(WarehouseBusyError):
        rebuilding.complete(own["lake"], own["warehouse"], None, own["enterprise"])
    assert not bench.warehouse.is_complete()
    rebuilding.complete(own["lake"], own["warehouse"], None, own["enterprise"])
    assert bench.warehouse.is_complete()
    assert "Reloaded 2 hours and 1 snapshot version. Failed: One. Two." in caplog.text


def test_the_report_shows_what_needs_attention_as_it_is(instance):
    told = {"attention": ["<a>", "b"], "attention_count": 7, "picture_count": 3, "seconds": 1.23456}
    page = published.report(lambda: Mock(path="/r.html", size_bytes=2_000, **told))
    (event,) = dg.materialize([page], instance=instance).get_asset_materialization_events()
    shown = {"attention": "- `<a>`\n- b", "attention_count": 7, "pictures": 3, "seconds": 1.235}
    shown |= {"page": "/report", "dagster/uri": "/r.html", "bytes": 2_000, "size": "2.0 kB"}
    assert {name: one.value for name, one in event.materialization.metadata.items()} == shown
