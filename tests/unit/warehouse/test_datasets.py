"""Datasets declared nowhere else: their tables, loads, coverage and publication follow the declaration."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from resources import datasets
from resources.datasets import Dataset, Family
from resources.tables import Column, HourState, Table
from resources.tables.declaration import BATCH_HOUR, INT, PROJECT_AND_NAMESPACE, SNAPSHOT_VERSION, TEXT
from resources.warehouse import HourStatus, LakeFileError
from tests.builds import ask, loaded_digests
from tests.declared import also
from tests.unit.warehouse.conftest import START

THING = (Column("thing_id", INT, "Number of the thing.", "identifier", required=True), Column("label", TEXT, "Label."))
BODY = Column("body", TEXT, "Its text.", body=True)


def dataset(name, family, *columns):
    table = Table(name, f"The {name}.", (*columns, *THING, BODY), key=(*(c.name for c in columns), "thing_id"))
    return Dataset(table, family, endpoint=name, archive=name, description=f"The {name} as served.")


EVENTS = dataset("events", Family.HOURLY, BATCH_HOUR, *PROJECT_AND_NAMESPACE)
CARDS = dataset("cards", Family.SNAPSHOT, *SNAPSHOT_VERSION, *PROJECT_AND_NAMESPACE)


@pytest.fixture(autouse=True)
def declared():
    with also(dataset("colours", Family.LIST), EVENTS, CARDS):
        yield


def hour_file(lake, number, labels, project="enwiki", rejects=()):
    rows = [{"thing_id": n, "label": label, "body": "text"} for n, label in enumerate(labels)]
    return lake.file(number, rows, project, rejects=rejects, dataset=EVENTS)


def cards(lake, version, labels, project="enwiki"):
    rows = [{"thing_id": n, "label": label} for n, label in enumerate(labels)]
    made = lake.snapshot([rows], project, version=version * 32, rejects=[b"{"], of=CARDS)
    return replace(made, exported_at=lake.hour(3))


def test_an_hour_is_replaced_with_ledger_rejects_and_coverage_and_the_articles_know_nothing_of_it(lake, warehouse):
    articles = lake.file(0, [lake.change(1, "A", 1)], rejects=[b"x"])
    warehouse.load_hour(lake.hour(0), [articles], dataset=datasets.ARTICLE_CHANGES)
    warehouse.load_hour(lake.hour(3), [lake.file(3, [lake.change(1, "A", 190)])], dataset=datasets.ARTICLE_CHANGES)
    first = [hour_file(lake, 0, ["a", "b"], rejects=[b"{"]), hour_file(lake, 0, ["f"], "frwiki")]
    load = warehouse.load_hour(lake.hour(0), first, dataset=EVENTS)
    assert (load.changed, load.row_count, load.duplicate_count, load.reject_count) == (True, 3, 0, 1)
    assert not warehouse.load_hour(lake.hour(0), first, dataset=EVENTS).changed
    redone = hour_file(lake, 0, ["c"])
    again = warehouse.load_hour(lake.hour(0), [redone, first[1]], dataset=EVENTS)
    assert (again.loaded_file_count, again.row_count, again.held_row_count) == (1, 1, 2)
    missing = HourStatus(lake.hour(2), "enwiki", 0, HourState.NOT_YET, "Because.")
    assert warehouse.record_statuses([missing], EVENTS) == 1
    exact = warehouse.project_states(published=False)
    assert warehouse.fill_coverage(["enwiki", "frwiki"], [0], lake.hour(4), dataset=EVENTS) == 3
    warehouse.publish()
    assert (warehouse.pending_hours(), warehouse.project_states()) == ([], exact)
    found = warehouse.sql("SELECT project_id, thing_id, label FROM events ORDER BY ALL").rows
    assert found == [("enwiki", 0, "c"), ("frwiki", 0, "f")]
    rows = warehouse.coverage(dataset=EVENTS)
    assert {(row.project_id, row.batch_hour): (row.state, row.load_count) for row in rows} == {
        ("enwiki", lake.hour(0)): ("loaded", 2),
        ("frwiki", lake.hour(0)): ("loaded", 1),
        **{(name, lake.hour(n)): ("missing", None) for name, n in (("enwiki", 1), ("frwiki", 1), ("frwiki", 2))},
        ("enwiki", lake.hour(2)): ("not_yet", None),
    }
    rows = warehouse.coverage(dataset=datasets.ARTICLE_CHANGES)
    assert [(row.batch_hour, row.state) for row in rows] == [(lake.hour(n), "loaded") for n in (0, 3)]
    assert warehouse.sql("SELECT table_name, raw FROM rejects").rows == [("article_changes", b"x")]
    assert [row.row_count for row in warehouse.summary([lake.hour(0)], dataset=EVENTS)] == [1, 1]
    assert [row.row_count for row in warehouse.summary([lake.hour(0)], dataset=datasets.ARTICLE_CHANGES)] == [1]
    assert set(loaded_digests(warehouse, lake.hour(0), EVENTS.name).values()) == {redone.digest, first[1].digest}
    (audit,) = warehouse.audit([lake.hour(0)], EVENTS)
    assert (audit.row_count, audit.expected_count, audit.repeated_count, audit.early_count) == (2, 2, 0, 0)
    with warehouse.ledger() as ledger:
        assert len(ledger.files(EVENTS, lake.hour(0).date())[0]) == 2
        assert len(ledger.files(datasets.ARTICLE_CHANGES, lake.hour(0).date())[0]) == 2


def test_rows_of_another_place_are_noticed_and_a_key_is_loaded_once(lake, warehouse):
    file = hour_file(lake, 0, ["a", "b"])
    with pytest.raises(LakeFileError, match="2 rows whose hour, project or namespace differs"):
        warehouse.load_hour(lake.hour(0), [replace(file, project_id="frwiki")], dataset=EVENTS)
    rows = pq.read_table(file.path, partitioning=None)
    place, field = rows.column_names.index("thing_id"), EVENTS.table.schema.field("thing_id")
    pq.write_table(rows.set_column(place, field, [[7, 7]]), file.path)
    load = warehouse.load_hour(lake.hour(0), [file], dataset=EVENTS)
    assert (load.row_count, load.duplicate_count) == (1, 1)
    (audit,) = warehouse.audit([lake.hour(0)], EVENTS)
    assert (audit.row_count, audit.expected_count, audit.repeated_count) == (1, 1, 0)
    with warehouse._connector.build("repeat a row") as connection:
        connection.execute(f"INSERT INTO {EVENTS.name} FROM {EVENTS.name}")
    (audit,) = warehouse.audit([lake.hour(0)], EVENTS)
    assert (audit.row_count, audit.repeated_count) == (2, 1)


def test_a_snapshot_replaces_the_version_before(lake, warehouse):
    pages = lake.snapshot([[lake.change(1, "A", 1)]])
    warehouse.load_snapshot(pages)
    warehouse.apply_changes()
    exact = warehouse.project_states(published=False)
    first = warehouse.load_snapshot(cards(lake, "a", ["x", "y"]))
    assert (first.changed, first.row_count, first.boundary_at, first.dropped_versions) == (True, 2, None, ())
    warehouse.load_snapshot(cards(lake, "c", ["f"], "frwiki"))
    # without a boundary, from when it was exported
    exported = "SELECT date_trunc('second', source_at) FROM snapshots WHERE table_name = 'cards'"
    assert ask(warehouse, exported) == [(lake.hour(3),)] * 2
    assert not warehouse.load_snapshot(cards(lake, "a", ["x", "y"])).changed
    second = warehouse.load_snapshot(cards(lake, "b", ["z"]))
    assert second.dropped_versions == ("a" * 32,)
    assert "complete until" not in str(second)
    assert warehouse.load_snapshot(cards(lake, "b", ["z"]), reload=True).row_count == 1
    assert warehouse.pending_snapshots() == []
    found = warehouse.beginnings(datasets.ARTICLE_CHANGES), warehouse.snapshot_scopes(datasets.SNAPSHOT_ARTICLES)
    assert found == ({("enwiki", 0): lake.hour(-1)}, {("enwiki", 0)})
    assert not warehouse.apply_changes().changed
    warehouse.publish()
    assert warehouse.project_states() == exact
    assert warehouse.sql("SELECT name FROM articles_at(?)", [lake.hour(9)]).rows == [("A",)]
    assert warehouse.sql("SELECT project_id, label FROM cards ORDER BY ALL").rows == [("enwiki", "z"), ("frwiki", "f")]
    assert warehouse.sql("SELECT count(*) FROM rejects WHERE table_name = 'cards'").rows == [(2,)]
    versions = [("cards", "b" * 32), ("cards", "c" * 32), ("snapshot_articles", pages.snapshot_version)]
    assert sorted(warehouse.sql("SELECT table_name, snapshot_version FROM snapshots").rows) == versions
    with pytest.raises(LakeFileError, match="rows of another snapshot"):
        warehouse.load_snapshot(replace(cards(lake, "d", ["z", "z"]), project_id="frwiki"))
    warehouse.drop_project("enwiki")
    assert warehouse.project_rows("enwiki") == {}
    warehouse.publish()
    assert warehouse.sql("SELECT label FROM cards").rows == [("f",)]


def test_an_entity_and_a_page_of_one_hour_and_place_hide_nothing_of_each_other(lake, warehouse):
    """Whichever comes first."""
    told, applied = datasets.ENTITY_CHANGES, []
    # of equal times the known revision counts, and of equal revisions the greater event, in whichever hour it is
    ties = [{"Q7": {"version_id": 5}, "Q8": {"event_id": "a"}}, {"Q7": {}, "Q8": {"event_id": "b"}}]
    for number in range(2):
        hour = lake.hour(number)
        entity = {"entity_id": f"Q{number}", "change_type": "update", "event_at": hour, "statements_json": "{}"}
        rows = [entity | {"version_id": n} for n in (2, 1)] + [entity | {"entity_id": "Q9", "change_type": "delete"}]
        rows += [entity | {"entity_id": name, "event_at": START} | more for name, more in ties[number].items()]
        entities = lake.file(number, rows, "wikidatawiki", rejects=[b"x"], dataset=told)
        changes = [lake.change(n, f"P{n}", 60 * number + 1, html="h") for n in (1, 2)]
        pages = lake.file(number, changes, "wikidatawiki", rejects=[b"{"])
        both = [([entities], told), ([pages], datasets.ARTICLE_CHANGES)]
        for files, dataset in 2 * (both[::-1] if number else both):
            warehouse.load_hour(hour, files, dataset=dataset, reload=True)
        applied.append(warehouse.apply_entity_changes())
    assert [(one.written_count, one.removed_count) for one in applied] == [(3, 0), (2, 0)]
    for table in ("loads", "rejects"):
        query = f"SELECT table_name, count(*) FROM {table} GROUP BY ALL ORDER BY ALL"
        assert ask(warehouse, query) == [("article_changes", 2), ("entity_changes", 2)]
    warehouse.publish()
    entities = warehouse.sql("SELECT entity_id, count(*) FROM entity_bodies GROUP BY ALL ORDER BY ALL").rows
    assert entities == [("Q0", 1), ("Q1", 1), ("Q7", 2), ("Q8", 2)]
    entities = warehouse.sql("SELECT entity_id, version_id, event_id FROM entities ORDER BY ALL").rows
    assert entities == [("Q0", 2, None), ("Q1", 2, None), ("Q7", 5, None), ("Q8", None, "b")]
    bodies = warehouse.sql("SELECT batch_hour, count(*) FROM article_bodies GROUP BY ALL ORDER BY ALL").rows
    assert bodies == [(lake.hour(number), 2) for number in range(2)]
    warehouse.rebuild_entities()
    assert ask(warehouse, "SELECT entity_id FROM internal.ended_entities") == [("Q9",)]
    warehouse.drop_project("wikidatawiki")
    assert ask(warehouse, "SELECT count(*) FROM internal.ended_entities") == [(0,)]


def test_a_page_looked_up_twice_has_one_body_and_an_hour_is_asked_without_opening_other_lookups(lake, warehouse):
    def answers(number, *spellings):
        page = lake.change(1, "A B", 0, html=f"h{number}")
        return lake.lookups(60 * number, *((name, page) for name in spellings))

    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(2, "C", 1, html="of the hour")])])
    files = [answers(1, "A B", "A_B"), answers(2, "A B")]
    files.append(lake.lookups(180, ("D", lake.change(4, "D", 0, html="watched")), purpose="watch"))
    warehouse.apply_changes()
    assert [warehouse.load_lookups(files, reload=again) for again in (False, False, True)] == [4, 0, 4]
    applied = warehouse.apply_changes()
    assert (applied.file_count, applied.lookup_file_count, applied.written_count) == (0, 3, 1)
    assert not warehouse.apply_changes().changed
    warehouse.publish()
    found = warehouse.sql("SELECT article_id, html FROM article_bodies").rows
    assert sorted(found) == [(1, "h1"), (1, "h2"), (2, "of the hour")]
    assert warehouse.sql("SELECT html FROM article_text('enwiki', 'A B')").rows == [("h1",)]
    assert warehouse.sql("SELECT version_id FROM article_history('enwiki', 'A_B')").rows == [(1000,)]
    pages = warehouse.sql("SELECT name FROM articles_at('2026-11-09', inexact := true) ORDER BY ALL").rows
    assert pages == [("A B",), ("C",)]
    files[1].path.write_bytes(b"damaged")
    of_hour = f"SELECT html FROM article_bodies WHERE batch_hour = '{lake.hour(0).isoformat()}'"
    assert warehouse.sql(of_hour).rows == [("of the hour",)]
