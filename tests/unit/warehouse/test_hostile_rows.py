"""Odd records of every dataset, from NDJSON to the published file: null or missing in a view; no view fails."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from resources import datasets
from resources.datasets.live import LIVE_CHANGES
from tests import asking_everything
from tests.builds import close_all
from tests.hostile_rows import HOUR, HostileMirror, Raw, encode

ENTITIES, LAST = datasets.SNAPSHOT_ENTITIES, "9999-12-31T23:59:59.999999Z"
#: Views that show no row of these records: no lookup here found nothing, and no run of a stream is noted.
EMPTY = {"internal.looked_up", "internal.not_found", "internal.lake_stream_runs", "main.stream_runs"}


@pytest.fixture
def mirror(data):
    return HostileMirror(data, 1)


def answers_elsewhere(path, calls_max):
    """The same of the other DuckDB; None where there is none."""
    if not (folder := os.environ.get("TEST_OTHER_DUCKDB")):
        return None
    command = [sys.executable, asking_everything.__file__, str(path), str(calls_max)]
    environment = os.environ | {"PYTHONPATH": folder}
    told = subprocess.run(command, env=environment, check=True, timeout=3600, capture_output=True)
    return json.loads(told.stdout)


@pytest.mark.parametrize(
    ("seed", "count", "versions", "calls_max"),
    [(1, 280, 1, 3), *(pytest.param(seed, 10_000, 2, 1000, marks=pytest.mark.soak) for seed in range(2, 5))],
)
def test_every_view_and_macro_answers(data, seed, count, versions, calls_max):
    mirror = HostileMirror(data, seed)
    mirror.fill(count, versions)
    assert mirror.rows.total() >= count
    assert set(mirror.rows) == {*(dataset.name for dataset in datasets.datasets()), LIVE_CHANGES}
    assert min(mirror.rows.values()) > 0
    path = mirror.warehouse.published_path
    close_all()
    counts, errors = asking_everything.answers(str(path), calls_max)
    assert errors == {}
    shown = {name.replace('"', "").removeprefix("FROM "): rows for name, rows in counts.items() if "(" not in name}
    assert {name for name, rows in shown.items() if not rows} <= EMPTY
    if (other := answers_elsewhere(path, calls_max // 3)) is not None:
        assert other[1] == {}
        # states without an event that are equal else are ordered by a digest of their text, in which versions of DuckDB
        # write a backslash differently
        differing = {query for query, rows in other[0].items() if rows != counts[query]}
        assert {query for query in differing if '"articles_at"' not in query} == set()
        assert set(shown) == {name.replace('"', "").removeprefix("FROM ") for name in other[0] if "(" not in name}


def line(project, number, **more):
    """A record of a page."""
    usual = {
        "name": f"Page {number}",
        "identifier": number,
        "version": {"identifier": number},
        "date_modified": "2026-11-19T05:10:11Z",
        "is_part_of": {"identifier": project},
        "namespace": {"identifier": 0},
    }
    return Raw(encode(usual | more))


def bring(mirror, dataset, *records):
    """Bring in these records of a snapshot of the dataset."""
    place = dataset.places[0] if dataset.places else ("enwiki", 0)
    lines = [line(place[0], 7, **one) for one in records]
    mirror.bring(dataset, place, lines, snapshot_id=f"{place[0]}_namespace_0", snapshot_version="abcdef01")
    assert mirror.rows[dataset.name] == len(records)


def test_odd_forms_and_moments_are_answered_and_leave_those_of_others_as_they_are(mirror, monkeypatch):
    odd = [
        {"P1": [{"value": {"content_data": "str"}}]},
        {"P1": [{"value": {"content_data": '{"time":'}}]},
        {"P1": [{"value": "str"}, "str", None, []]},
        {"P1": "str", "P2": None, "": {}},
        "str",
    ]
    good = {"P1": [{"value": {"content_data": {"Time": "+2001-02-03T00:00:00Z", "precision": 11}}}]}
    bring(mirror, ENTITIES, *({"name": f"Q{n}", "entity": {"statements": one}} for n, one in enumerate([*odd, good])))
    bring(mirror, datasets.SNAPSHOT_ARTICLES, {"name": "Page", "identifier": 5, "date_modified": LAST})
    for number, at in enumerate(["0001-01-01T00:00:00Z", "2026-11-19T05:10:11Z"]):
        lookup = {"name": "Gone", "at": at, "purpose": "repair", "is_found": False}
        record = {"lookup": lookup, "is_part_of": {"identifier": "enwiki"}, "namespace": {"identifier": 0}}
        moment = HOUR + timedelta(hours=number, microseconds=7)
        mirror.bring(datasets.LOOKUPS, ("enwiki", 0), [Raw(encode(record))], source_at=moment)
    assert mirror.rejects.total() == 0
    mirror.warehouse.publish()
    sql = mirror.warehouse.sql
    found = sql("SELECT entity_id, value, time, time_precision FROM entity_statements ORDER BY ALL").rows
    assert ("Q5", "+2001-02-03T00:00:00Z", "+2001-02-03T00:00:00Z", 11) in found
    odd = [row for row in found if row[0] in ("Q0", "Q1")]
    assert odd == [("Q0", "str", None, None), ("Q1", '{"time":', None, None)]
    [state] = mirror.warehouse.project_states()
    assert state.exact_from_at.isoformat() == "9999-12-31T23:59:59.999999+00:00"
    assert sql("SELECT title, event_at FROM internal.not_found").rows == [("Gone", datetime(1, 1, 1, tzinfo=UTC))]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    texts = {
        "TIMESTAMPTZ 'infinity'": "infinity",
        "TIMESTAMPTZ '10000-01-01'": "10000-01-01 00:00:00+00",
        "DATE '290000-01-01 (BC)'": "290000-01-01 (BC)",
        "[TIMESTAMP '-infinity']": "[-infinity]",
        "TIMESTAMP_NS '2026-11-19 05:00:00.123456789'": "2026-11-19 05:00:00.123456789",
    }
    for value, text in texts.items():  # which Python lacks
        assert sql(f"SELECT {value} AS odd, 1 AS usual").rows == [(text, 1)]


def test_sizes_beyond_64_bits_are_null(mirror):
    def edit(project, number, count, before=None):
        versions = {"version": {"identifier": number, "number_of_characters": count}}
        versions["previous_version"] = {} if before is None else {"identifier": 1, "number_of_characters": before}
        return line(project, number, **versions, event={"identifier": str(number), "type": "update"})

    largest = 2**63 - 1
    edits = {"enwiki": [edit("enwiki", *one) for one in ((2, -largest, 600), (3, 10, 600), (4, largest, -600))]}
    edits["frwiki"] = [edit("frwiki", number, largest) for number in range(10, 16)]
    for project, lines in edits.items():
        mirror.bring(datasets.ARTICLE_CHANGES, (project, 0), lines, batch_hour=HOUR)
    mirror.warehouse.publish()
    sql = mirror.warehouse.sql
    found = sql("SELECT article_id, added_character_count FROM vandalism_candidates ORDER BY ALL").rows
    assert found == [(2, None), (3, -590)]
    # a difference that is none counts as nothing, a sum that is none is null
    assert sql("SELECT added_character_count FROM activity ORDER BY project_id").rows == [(-590,), (None,)]


def test_dates_long_past_win_nothing_and_stop_nothing(mirror):
    def page(number, version, published):
        event = {"identifier": f"e{number}.{version}", "type": "update", "date_published": published}
        return line("enwiki", number, version={"identifier": version}, event=event)

    place, long_ago, hours = ("enwiki", 0), "0001-01-01T00:00:00Z", [HOUR, HOUR + timedelta(hours=1)]
    first, second = (f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in hours)
    known = {"snapshot_id": "s", "snapshot_version": "2" * 32}
    mirror.bring(datasets.SNAPSHOT_ARTICLES, place, [page(1, 1, long_ago), page(3, 3, long_ago)], HOUR, **known)
    changes = ([page(1, 2, first), page(2, 2, long_ago)], [page(2, 5, second), page(1, 1, long_ago)])
    for hour, lines in zip(hours, changes, strict=True):
        mirror.bring(datasets.ARTICLE_CHANGES, place, lines, batch_hour=hour)
    assert mirror.rejects.total() == 0
    found = mirror.ask("SELECT name, version_id FROM articles ORDER BY ALL")
    assert found == [("Page 1", 2), ("Page 2", 5), ("Page 3", 3)]
    assert mirror.ask("SELECT count(*) FROM project_state") == [(1,)]
    assert mirror.warehouse.audit(hours, dataset=datasets.ARTICLE_CHANGES)[0].early_count == 1
    for view in ("project_state", "snapshots", "hours", "loads", "articles", "articles_at('2026-11-19 06:30:00+00')"):
        assert mirror.ask(f"FROM {view}")
