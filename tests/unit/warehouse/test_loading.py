"""An hour goes in whole, once, and says what it did."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.tables import ARTICLE_CHANGES
from resources.warehouse import LakeFileError, Warehouse
from tests.builds import loaded_digests, looking


def ask(warehouse, query):
    with looking(warehouse) as connection:
        return connection.sql(query).to_arrow_table().to_pylist()


def count(warehouse, table="article_changes"):
    return ask(warehouse, f"SELECT count(*) AS n FROM {table}")[0]["n"]


def test_nothing_is_touched_before_a_method_is_called(data):
    warehouse = Warehouse(data)
    assert not data.exists()
    assert warehouse.build_path == data / "warehouse" / "build.duckdb"
    assert warehouse.published_path == data / "warehouse.duckdb"


def test_hour_is_loaded_once(lake, warehouse):
    file = lake.file(0, [lake.change(1, "A", 1), lake.change(2, "B", 2, "delete")])
    load = warehouse.load_hour(lake.hour(0), [file])
    assert (load.changed, load.loaded_file_count, load.row_count, load.duplicate_count) == (True, 1, 2, 0)
    assert "1 file loaded (0 unchanged), 2 rows" in str(load)
    again = warehouse.load_hour(lake.hour(0), [file])
    assert (again.changed, again.loaded_file_count, again.unchanged_file_count) == (False, 0, 1)
    assert (again.row_count, again.held_row_count, again.held_duplicate_count) == (0, 2, 0)
    assert "nothing to do" in str(again)
    assert count(warehouse) == 2
    assert loaded_digests(warehouse, lake.hour(0)) == {("enwiki", 0): file.digest}


def test_reload_loads_the_same_content_again_without_calling_it_redone(lake, warehouse):
    file = lake.file(0, [lake.change(1, "A", 1)])
    warehouse.load_hour(lake.hour(0), [file])
    warehouse.apply_changes()
    load = warehouse.load_hour(lake.hour(0), [file], reload=True)
    assert load.changed
    assert count(warehouse) == 1
    assert ask(warehouse, "SELECT load_count FROM hours") == [{"load_count": 1}]
    assert warehouse.pending_hours() == [lake.hour(0)]


def test_redo_replaces_its_own_project_and_namespace_only(lake, warehouse):
    first = [lake.file(0, [lake.change(1, "A", 1)]), lake.file(0, [lake.change(1, "T:A", 2)], namespace=10)]
    warehouse.load_hour(lake.hour(0), [*first, lake.file(0, [lake.change(7, "A", 1)], "frwiki")])
    redone = lake.file(0, [lake.change(1, "B", 3), lake.change(2, "C", 4)])
    load = warehouse.load_hour(lake.hour(0), [redone, first[1]])
    assert (load.loaded_file_count, load.unchanged_file_count) == (1, 1)
    assert (load.row_count, load.held_row_count) == (2, 4)
    assert ask(warehouse, "SELECT project_id, name FROM article_changes ORDER BY ALL") == [
        {"project_id": "enwiki", "name": "B"},
        {"project_id": "enwiki", "name": "C"},
        {"project_id": "enwiki", "name": "T:A"},
        {"project_id": "frwiki", "name": "A"},
    ]
    assert ask(warehouse, "SELECT load_count AS n FROM hours ORDER BY project_id, namespace_id") == [
        {"n": 2},
        {"n": 1},
        {"n": 1},
    ]


def test_repeated_events_are_one_row_and_both_halves_of_a_move_stay(lake, warehouse):
    event = lake.change(1, "A", 1, event_id="e")
    rows = [event, event, event | {"name": "B", "change_type": "delete"}, event | {"abstract": "other"}]
    without = lake.change(2, "C", 1, event_id=None)
    rows += [without, without, without | {"abstract": "other"}]
    load = warehouse.load_hour(lake.hour(0), [lake.file(0, rows)])
    assert (load.row_count, load.duplicate_count) == (4, 3)
    assert (load.held_row_count, load.held_duplicate_count) == (4, 3)
    assert ask(warehouse, "SELECT name, count(*) AS n FROM article_changes GROUP BY name ORDER BY name") == [
        {"name": "A", "n": 1},
        {"name": "B", "n": 1},
        {"name": "C", "n": 2},
    ]
    assert ask(warehouse, "SELECT row_count, duplicate_count FROM loads") == [{"row_count": 7, "duplicate_count": 3}]


def test_same_rows_in_another_order_leave_the_same_row_of_a_repeated_event(make):
    kept = set()
    for step in (1, -1):
        made = make()
        event = made.lake.change(1, "A", 1, event_id="e")
        rows = [event | {"abstract": text} for text in ("x", "y", "z")][::step]
        made.warehouse.load_hour(made.lake.hour(0), [made.lake.file(0, rows)])
        kept.add(ask(made.warehouse, "SELECT abstract FROM article_changes")[0]["abstract"])
    assert len(kept) == 1


def test_rejects_are_kept_whole_and_replaced_with_their_hour(lake, warehouse):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)], rejects=[b"\xff{", b"x"])])
    assert ask(warehouse, "SELECT line_number, raw FROM rejects ORDER BY line_number") == [
        {"line_number": 1, "raw": b"\xff{"},
        {"line_number": 2, "raw": b"x"},
    ]
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])])
    assert count(warehouse, "rejects") == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file.path.unlink(), "is missing"),
        (lambda file: file.path.write_bytes(b"no parquet at all"), "not readable Parquet"),
        (lambda file: file.path.write_bytes(file.path.read_bytes()[:200]), "not readable Parquet"),
        (
            lambda file: pq.write_table(pq.read_table(file.path).drop_columns(["name"]), file.path),
            "does not contain the declared columns name",
        ),
        (lambda file: pq.write_table(pq.read_table(file.path).slice(1), file.path), "1 rows, but 2 were expected"),
    ],
    ids=["gone", "text", "cut", "column", "row"],
)
def test_spoilt_file_changes_nothing(lake, warehouse, spoil, words):
    good = lake.file(0, [lake.change(1, "A", 1)])
    warehouse.load_hour(lake.hour(0), [good])
    bad = lake.file(0, [lake.change(2, "B", 1), lake.change(3, "C", 1)], namespace=10)
    redone = lake.file(0, [lake.change(9, "Z", 1)])
    spoil(bad)
    with pytest.raises(LakeFileError, match=words) as caught:
        warehouse.load_hour(lake.hour(0), [redone, bad])
    assert not caught.value.retryable
    # a file that is there is never made again
    todo = "Remove the file and convert its archive again." if bad.path.exists() else "Convert its archive again."
    assert str(caught.value).endswith(todo)
    assert ask(warehouse, "SELECT name FROM article_changes") == [{"name": "A"}]
    assert loaded_digests(warehouse, lake.hour(0)) == {("enwiki", 0): good.digest}


def test_damage_inside_the_file_changes_nothing(lake, warehouse):
    """The footer is whole, so only reading the pages shows it."""
    file = lake.file(0, [lake.change(number, f"Title {number}", 1) for number in range(500)])
    content = bytearray(file.path.read_bytes())
    content[4:4000] = b"\x00" * 3996
    file.path.write_bytes(content)
    with pytest.raises(LakeFileError, match="could not be loaded into the warehouse"):
        warehouse.load_hour(lake.hour(0), [file])
    assert count(warehouse) == count(warehouse, "loads") == count(warehouse, "hours") == 0


def without(path, column):
    """Takes the values of a column out of a file, whose columns stay as declared."""
    table = pq.read_table(path, partitioning=None)
    position = table.column_names.index(column)
    field = table.schema.field(column)
    table = table.set_column(position, field.with_nullable(True), pa.nulls(len(table), field.type))
    pq.write_table(table, path)


@pytest.mark.parametrize("of_rejects", [False, True], ids=["rows", "rejects"])
def test_required_value_that_is_absent_is_said_of_the_file_at_fault(lake, warehouse, of_rejects):
    files = [
        lake.file(0, [lake.change(1, "A", 1)], project, rejects=[b"x"]) for project in ("dewiki", "enwiki", "frwiki")
    ]
    path, column = (files[1].rejects_path, "reason") if of_rejects else (files[1].path, "name")
    without(path, column)
    with pytest.raises(LakeFileError, match=rf"could not be loaded .*{path.name} \(no value in {column}\)") as caught:
        warehouse.load_hour(lake.hour(0), files)
    assert ("rejects file" in str(caught.value)) == of_rejects
    assert count(warehouse) == count(warehouse, "rejects") == count(warehouse, "loads") == 0


@pytest.mark.parametrize(("column", "value"), [("project_id", "frwiki"), ("namespace_id", 14), ("batch_hour", 1)])
def test_rows_of_another_place_are_refused(lake, warehouse, column, value):
    file = lake.file(0, [lake.change(1, "A", 1)])
    wrong = lake.hour(value) if column == "batch_hour" else value
    table = pq.read_table(file.path, partitioning=None)
    values = pa.array([wrong], ARTICLE_CHANGES.schema.field(column).type)
    pq.write_table(
        table.set_column(table.column_names.index(column), ARTICLE_CHANGES.schema.field(column), values), file.path
    )
    with pytest.raises(LakeFileError, match="1 rows whose hour, project or namespace differs"):
        warehouse.load_hour(lake.hour(0), [file])
    assert count(warehouse) == 0


@pytest.mark.parametrize("field", ["update_count", "reject_count"])
def test_counts_that_do_not_add_up_are_refused(lake, warehouse, field):
    file = lake.file(0, [lake.change(1, "A", 1)], rejects=[b"x"])
    with pytest.raises(LakeFileError, match="expected"):
        warehouse.load_hour(lake.hour(0), [replace(file, **{field: 5})])
    assert count(warehouse) == 0


def test_file_outside_its_hours_folder_is_refused(lake, warehouse, tmp_path):
    file = lake.file(0, [lake.change(1, "A", 1)])
    for folder in (tmp_path, file.path.parents[1] / "hour=01"):
        folder.mkdir(exist_ok=True)
        elsewhere = folder / file.path.name
        elsewhere.write_bytes(file.path.read_bytes())
        with pytest.raises(LakeFileError, match=r"is not in the folder of its partition \(.*date=2026-11-01/hour=00\)"):
            warehouse.load_hour(lake.hour(0), [replace(file, path=elsewhere)])
    assert count(warehouse) == 0


def test_arguments_that_contradict_one_another(lake, warehouse):
    file = lake.file(0, [lake.change(1, "A", 1)])
    with pytest.raises(ValueError, match="not to 2026-11-01T01:00Z"):
        warehouse.load_hour(lake.hour(1), [file])
    with pytest.raises(ValueError, match="two files"):
        warehouse.load_hour(lake.hour(0), [file, file])
    with pytest.raises(ValueError, match="at the start of an hour"):
        warehouse.load_hour(lake.hour(0).replace(minute=1), [])
    with pytest.raises(ValueError, match="at the start of an hour"):
        warehouse.load_hour(lake.hour(0).replace(tzinfo=None), [])


def test_reference_table_is_replaced_and_keeps_its_revision_when_equal(lake, warehouse):
    rows = [
        {"project_id": "enwiki", "name": "Wikipedia", "code": "wiki"},
        {"project_id": "frwiki", "name": "Wikipédia"},
    ]
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows)) == 2
    before = ask(warehouse, "SELECT revision FROM internal.meta")
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows)) == 2
    assert ask(warehouse, "SELECT revision FROM internal.meta") == before
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows[:1])) == 1
    assert ask(warehouse, "SELECT project_id, code FROM projects") == [{"project_id": "enwiki", "code": "wiki"}]
    with pytest.raises(LakeFileError, match="does not contain the declared columns"):
        warehouse.load_list(lake.dataset("codes"), lake.reference("projects", rows))
    assert count(warehouse, "projects") == 1


def test_titles_and_texts_are_data_never_sql(lake, warehouse):
    name = "Robert'); DROP TABLE articles; --"
    project = "o'wiki"
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, name, 1)], project)])
    warehouse.publish({"service": "it's"})
    assert warehouse.sql("SELECT name FROM articles WHERE project_id = ?", [project]).rows == [(name,)]
    assert warehouse.sql("SELECT count(*) FROM article_bodies").rows == [(1,)]
