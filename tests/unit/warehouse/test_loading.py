"""An hour goes in whole, once, and says what it did."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources.tables import HourState
from resources.warehouse import ConvertedFile, HourStatus, LakeFileError, Warehouse
from resources.warehouse.database.connect import raise_revision
from tests.builds import ask, close_all, loaded_digests
from tests.unit.warehouse.conftest import START


def count(warehouse, table="article_changes"):
    return ask(warehouse, f"SELECT count(*) FROM {table}")[0][0]


def test_nothing_is_touched_before_a_method_is_called(data):
    warehouse = Warehouse(data)
    assert not data.exists()
    assert warehouse.build_path == data / "warehouse" / "build.duckdb"
    assert warehouse.published_path == data / "warehouse.duckdb"


def test_hour_is_loaded_once(lake, warehouse):
    file = lake.file(0, [lake.change(1, "A", 1), lake.change(2, "B", 2, "delete")], rejects=[b"y"])
    load = warehouse.load_hour(lake.hour(0), [file])
    assert (load.changed, load.loaded_file_count, load.row_count, load.duplicate_count) == (True, 1, 2, 0)
    again = warehouse.load_hour(lake.hour(0), [file])
    assert (again.changed, again.loaded_file_count, again.unchanged_file_count) == (False, 0, 1)
    assert (again.row_count, again.held_row_count, again.held_duplicate_count) == (0, 2, 0)
    assert (count(warehouse), loaded_digests(warehouse, lake.hour(0))) == (2, {("enwiki", 0): file.digest})
    more = lake.file(0, 2 * [lake.change(1, "A", 1)], "frwiki", rejects=[b"x"])
    load = warehouse.load_hour(lake.hour(0), [file, more])
    wanted = {"changed": True, "loaded_file_count": 1, "unchanged_file_count": 1, "row_count": 1, "duplicate_count": 1}
    assert vars(load).items() >= (wanted | {"reject_count": 1, "held_row_count": 3, "held_duplicate_count": 1}).items()


def test_reload_loads_the_same_content_again_without_calling_it_redone(lake, warehouse):
    files = [lake.file(0, [lake.change(1, "A", 1)], namespace=number) for number in (0, 10)]
    warehouse.load_hour(lake.hour(0), files)
    warehouse.apply_changes()
    assert warehouse.load_hour(lake.hour(0), files, reload=True).changed
    assert (count(warehouse), ask(warehouse, "SELECT load_count FROM hours")) == (2, [(1,)] * 2)
    assert warehouse.pending_hours() == [lake.hour(0)]


def test_redo_replaces_its_own_project_and_namespace_only(lake, warehouse):
    first = [lake.file(0, [lake.change(1, "A", 1)])]
    first.append(lake.file(0, [lake.change(1, "T:A", 2)] * 2, namespace=10, rejects=[b"x"]))
    warehouse.load_hour(lake.hour(0), [*first, lake.file(0, [lake.change(7, "A", 1)], "frwiki")])
    redone = lake.file(0, [lake.change(1, "B", 3), lake.change(2, "C", 4)])
    load = warehouse.load_hour(lake.hour(0), [redone, first[1]])
    assert (load.loaded_file_count, load.unchanged_file_count) == (1, 1)
    assert (load.row_count, load.duplicate_count, load.reject_count) == (2, 0, 0)
    assert (load.held_row_count, load.held_duplicate_count) == (4, 1)
    found = ask(warehouse, "SELECT project_id, name FROM article_changes ORDER BY ALL")
    assert found == [("enwiki", "B"), ("enwiki", "C"), ("enwiki", "T:A"), ("frwiki", "A")]
    assert warehouse.project_rows("enwiki") == {"article_changes": 3, "loads": 2, "hours": 2, "rejects": 1}
    assert ask(warehouse, "SELECT load_count FROM hours ORDER BY project_id, namespace_id") == [(2,), (1,), (1,)]


def test_repeated_events_are_one_row_and_both_halves_of_a_move_stay(lake, warehouse):
    event = lake.change(1, "A", 0, event_id="e")
    rows = [event, event, event | {"name": "B", "change_type": "delete"}, event | {"abstract": "other"}]
    without = lake.change(2, "C", 1, event_id=None)
    rows += [without, without, without | {"abstract": "other"}]
    # copies in the files of two projects are those of each
    load = warehouse.load_hour(lake.hour(0), [lake.file(0, rows, project) for project in ("enwiki", "frwiki")])
    assert (load.row_count, load.duplicate_count) == (8, 6)
    assert (load.held_row_count, load.held_duplicate_count) == (8, 6)
    query = "SELECT project_id, name, count(*) AS n FROM article_changes GROUP BY ALL ORDER BY ALL"
    found = (("A", 1), ("B", 1), ("C", 2))
    assert ask(warehouse, query) == [(project, *one) for project in ("enwiki", "frwiki") for one in found]
    assert ask(warehouse, "SELECT row_count, duplicate_count FROM loads") == [(7, 3)] * 2
    # rows without an event repeat none, and the hour's first moment is in it
    assert [(one.repeated_count, one.early_count) for one in warehouse.audit([lake.hour(0)])] == [(0, 0)]
    warehouse.load_hour(lake.hour(1), [lake.file(1, [without, without | {"change_type": "delete"}], "dewiki")])
    assert ask(warehouse, "SELECT count(*) FROM distinct_changes WHERE project_id = 'dewiki'") == [(2,)]


def test_of_copies_of_one_event_the_newest_is_kept(lake, warehouse):
    """By moment, then revision, then updates before deletes; in one file and in two, and whichever comes first."""
    event = lake.change(1, "A", 30, event_id="e", version_id=5)
    older = lake.change(1, "A", 29, event_id="e", version_id=6)
    copies = [older, event | {"version_id": 4}, event | {"change_type": "delete"}]
    files = {"enwiki": [event, *copies], "frwiki": [*copies, event]}
    warehouse.load_hour(lake.hour(0), [lake.file(0, rows, project) for project, rows in files.items()])
    warehouse.load_hour(lake.hour(1), [lake.file(1, [older, older], project) for project in files])
    warehouse.publish()
    query = "SELECT project_id, version_id, change_type, event_at FROM {} ORDER BY ALL"
    kept = [(project, 5, "update", event["event_at"]) for project in files]
    others = [(project, 6, "update", older["event_at"]) for project in files]
    assert warehouse.sql(query.format("article_changes")).rows == sorted([*kept, *others])
    for once in ("distinct_changes", "articles", "changes_between('2026-11-01 00:00:00+00', '2026-11-02')"):
        assert warehouse.sql(query.format(once)).rows == kept, once


def test_same_rows_in_another_order_leave_the_same_row_of_a_repeated_event(make):
    kept = set()
    for step in (1, -1):
        made = make()
        event = made.lake.change(1, "A", 1, event_id="e")
        rows = [event | {"abstract": text} for text in ("x", "y", "z")][::step]
        made.warehouse.load_hour(made.lake.hour(0), [made.lake.file(0, rows)])
        kept.add(ask(made.warehouse, "SELECT abstract FROM article_changes")[0][0])
    assert len(kept) == 1


def test_rejects_are_kept_whole_and_replaced_with_their_hour(lake, warehouse):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)], rejects=[b"\xff{", b"x"])])
    assert ask(warehouse, "SELECT line_number, raw FROM rejects ORDER BY 1") == [(1, b"\xff{"), (2, b"x")]
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])])
    assert count(warehouse, "rejects") == 0


def values(path, column, wrong, kind=None):
    """Write another value into a column of a file, perhaps of another type."""
    table = pq.read_table(path, partitioning=None)
    position, kind = table.column_names.index(column), kind or table.schema.field(column).type
    pq.write_table(table.set_column(position, column, pa.array([wrong] * len(table), kind)), path)


def zeros(path):
    """Leave the footer whole, so only reading the pages shows the damage."""
    content = bytearray(path.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:end] = bytes(end - 4)
    path.write_bytes(content)


NO_VALUE = r"could not be loaded .*: {} file [^,]*bad_[^,]* \(no value in {}\)"
MISPLACED = "1 rows whose hour, project or namespace differs"
#: What is done to the last of three files, or said of it, and what is then said. Each has one row and one reject.
SPOILT = {
    "gone": (lambda file: file.path.unlink(), "is missing"),
    "text": (lambda file: file.path.write_bytes(b"no parquet at all"), "not readable Parquet"),
    "cut": (lambda file: file.path.write_bytes(file.path.read_bytes()[:200]), "not readable Parquet"),
    "column": (
        lambda file: pq.write_table(pq.read_table(file.path).drop_columns(["name"]), file.path),
        "does not contain the declared columns name",
    ),
    "type": (lambda file: values(file.path, "version_id", "7", pa.string()), "columns version_id, or stores them with"),
    "row": (lambda file: pq.write_table(pq.read_table(file.path).slice(1), file.path), "0 rows, but 1 were expected"),
    "pages": (lambda file: zeros(file.path), "could not be loaded into the warehouse"),
    "no name": (lambda file: values(file.path, "name", None), NO_VALUE.format("lake", "name")),
    "no reason": (lambda file: values(file.rejects_path, "reason", None), NO_VALUE.format("rejects", "reason")),
    "project": (lambda file: values(file.path, "project_id", "frwiki"), MISPLACED),
    "namespace": (lambda file: values(file.path, "namespace_id", 14), MISPLACED),
    "hour": (lambda file: values(file.path, "batch_hour", START), MISPLACED),
    "changes": (lambda file: replace(file, update_count=5), r"contains 1 rows, but 1 were expected \(5 by"),
    "rejects": (lambda file: replace(file, reject_count=5), "contains 1 lines, but 5 were expected"),
}


def test_what_is_refused_changes_nothing(lake, warehouse):
    good = lake.file(1, [lake.change(1, "A", 61)])
    warehouse.load_hour(lake.hour(1), [good])
    others = [lake.file(1, [lake.change(9, "Z", 61)], project) for project in ("enwiki", "zuwiki")]
    for number, (name, (spoil, words)) in enumerate(SPOILT.items()):
        bad = lake.file(1, [lake.change(2, "B", 61)], "bad", number, rejects=[b"x"])
        found = spoil(bad)
        bad = found if isinstance(found, ConvertedFile) else bad
        with pytest.raises(LakeFileError, match=words) as caught:
            warehouse.load_hour(lake.hour(1), [others[0], bad, others[1]])
        assert not caught.value.retryable, name
        if name in ("gone", "text", "cut", "column", "row"):
            # a file that is there is never made again
            todo = ". Remove the file and convert" if bad.path.exists() else ". Convert"
            assert str(caught.value).endswith(f"{todo} its archive again."), name
        assert ask(warehouse, "SELECT name FROM article_changes") == [("A",)], name
        assert loaded_digests(warehouse, lake.hour(1)) == {("enwiki", 0): good.digest}, name
        assert (count(warehouse, "rejects"), count(warehouse, "loads"), count(warehouse, "hours")) == (0, 1, 1), name


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
    with pytest.raises(ValueError, match="two files"):
        warehouse.load_hour(lake.hour(0), [file, file])
    with pytest.raises(ValueError, match="not the start of an hour"):
        warehouse.load_hour(lake.hour(0).replace(minute=1), [file])
    with pytest.raises(ValueError, match="no time zone"):
        warehouse.load_hour(lake.hour(0).replace(tzinfo=None), [file])


def test_reference_table_is_replaced_and_keeps_its_revision_when_equal(lake, warehouse):
    first = {"project_id": "enwiki", "name": "Wikipedia", "code": "wiki"}
    rows = [first, {"project_id": "frwiki", "name": "Wikipédia"}]
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows)) == 2
    before = ask(warehouse, "SELECT revision FROM internal.meta")
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows)) == 2
    assert ask(warehouse, "SELECT revision FROM internal.meta") == before
    assert warehouse.load_list(lake.dataset("projects"), lake.reference("projects", rows[:1])) == 1
    assert ask(warehouse, "SELECT project_id, code FROM projects") == [("enwiki", "wiki")]
    with pytest.raises(LakeFileError, match="does not contain the declared columns"):
        warehouse.load_list(lake.dataset("codes"), lake.reference("projects", rows))
    assert count(warehouse, "projects") == 1


def test_titles_and_texts_are_data_never_sql(lake, warehouse):
    name, project = "Robert'); DROP TABLE articles; --", "o'wiki"
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, name, 1)], project)])
    warehouse.publish({"service": "it's"})
    assert warehouse.sql("SELECT name FROM articles WHERE project_id = ?", [project]).rows == [(name,)]
    assert warehouse.sql("SELECT count(*) FROM article_bodies").rows == [(1,)]


def test_what_changes_a_table_is_news_and_the_same_again_is_not(lake, warehouse):
    def is_news(change):
        before = warehouse.unpublished_revision()
        change()
        return warehouse.unpublished_revision() != before

    def rows(number):
        return [lake.change(number, "A", 60 * number + 1)]

    codes = lake.dataset("codes")
    lists = [lake.reference("codes", [{"code": "wiki", "name": name}]) for name in ("Wikipedia", "Wikis")]
    shorter, gap = lake.reference("codes", []), HourStatus(lake.hour(5), "enwiki", 0, HourState.EMPTY, "Because.")
    other = [HourStatus(lake.hour(0), "frwiki", 0, HourState.ABSENT)]
    changes = {
        "the first hour": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(0))]),
        "an hour with other content": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(0), tag="b")]),
        "a snapshot": lambda: warehouse.load_snapshot(lake.snapshot([rows(9)])),
        "the current articles": warehouse.apply_changes,
        "what is known of an hour": lambda: warehouse.record_statuses([gap]),
        "what else is known of it": lambda: warehouse.load_hour(lake.hour(0), [lake.file(0, rows(0), tag="b")], other),
        "gaps": lambda: warehouse.fill_coverage(["enwiki"], [0]),
        "a list": lambda: warehouse.load_list(codes, lists[0]),
        "another list": lambda: warehouse.load_list(codes, lists[1]),
        "a list that lost a row": lambda: warehouse.load_list(codes, shorter),
    }
    assert warehouse.unpublished_revision() is None
    for name, change in changes.items():
        assert is_news(change), name
        assert not is_news(change), f"{name}, again"


TABLES = ("article_changes", "articles")
_CONTENT = ("article_changes", "articles", "loads", "hours", "internal.titles", "internal.pages")


def groups(warehouse, table):
    """The rows of each row group of a table, those included that are gone and lie there still."""
    of_ids = f"FROM pragma_storage_info('{table}') WHERE column_name = 'article_id' AND segment_type = 'BIGINT'"
    query = f"SELECT CAST(sum(count) AS BIGINT) {of_ids} GROUP BY row_group_id ORDER BY ALL"
    return [count for (count,) in ask(warehouse, query)]


def whole(warehouse):
    return {table: sorted(map(repr, ask(warehouse, f"FROM {table}"))) for table in _CONTENT}


def load_hours(lake, warehouse, hours, pages=1):
    """Each hour creates as many pages and edits those of the hour before."""
    for hour in hours:
        ids = range(max(hour - 1, 0) * pages, (hour + 1) * pages)
        rows = [lake.change(number + 1, f"Title {number}", hour * 60) for number in ids]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
        close_all()  # each hour ends with a checkpoint


def test_small_groups_become_one_after_a_day_of_transactions_and_the_rows_stay(lake, warehouse):
    def merged():
        before, revision = whole(warehouse), ask(warehouse, "SELECT revision FROM internal.meta")
        assert warehouse.merge_row_groups()
        close_all()
        assert ([len(groups(warehouse, table)) for table in TABLES], whole(warehouse)) == ([1, 1], before)
        assert ask(warehouse, "SELECT revision FROM internal.meta") == revision, "nothing is to be published for it"

    for hours, others in ((23, 24), 44), ([90], 46):
        # no load merges, and not the next run either
        load_hours(lake, warehouse, hours)
        for number in range(others):
            assert not warehouse.merge_row_groups(), "once a day is enough"
            state = HourStatus(lake.hour(200 + number), "enwiki", 0, HourState.EMPTY, f"Because of {hours}.")
            assert warehouse.record_statuses([state]) == 1
        assert len(groups(warehouse, "article_changes")) > 1
        merged()
    # DuckDB's own limit would end a merge after some 100 groups
    row = "'x', range, 'reloaded', NULL, 'enwiki', 0"
    with warehouse._connector.build("hide rows") as connection:
        for _ in range(112):
            connection.execute(f"INSERT INTO internal.hidden_rows SELECT {row} FROM range(1_117)")
            connection.execute("CHECKPOINT")
        raise_revision(connection)
    assert warehouse.merge_row_groups(after=1)
    close_all()
    of_paths = "FROM pragma_storage_info('internal.hidden_rows') WHERE column_name = 'lake_path'"
    assert ask(warehouse, f"SELECT count(DISTINCT row_group_id) {of_paths}") == [(2,)]
    with warehouse._connector.build("show rows") as connection:
        connection.execute("TRUNCATE internal.hidden_rows")
    # hours that are loaded again after groups were merged
    for hour in (24, 23):
        rows = [lake.change(number, f"Other {number}", hour * 60 + 1) for number in range(23, 27)]
        warehouse.load_hour(lake.hour(hour), [lake.file(hour, rows)])
        warehouse.apply_changes()
    before = whole(warehouse)["articles"]
    warehouse.rebuild_articles()
    assert whole(warehouse)["articles"] == before
