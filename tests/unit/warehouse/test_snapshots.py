"""A snapshot comes in whole or not at all, lies underneath the changes, and the replaced ones stay for a while."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import datasets
from resources.tables import REJECTED_LINES
from resources.warehouse import LakeFileError, QueryError
from tests.builds import ask
from tests.unit.warehouse.conftest import START
from tests.unit.warehouse.test_loading import zeros


def articles(warehouse):
    return ask(warehouse, "SELECT article_id, name FROM articles ORDER BY ALL")


def counts(warehouse):
    tables = ("snapshots", "loads", "articles", "rejects", "internal.hidden_rows")
    return list(ask(warehouse, "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in tables))[0])


def agrees_with_rebuild(warehouse, state):
    advanced = state(warehouse)
    warehouse.rebuild_articles()
    return state(warehouse) == advanced


def test_snapshot_becomes_current_whole(lake, warehouse, state):
    # a page whose last event was a change of visibility is there, a deleted one is not
    others = [lake.change(4, "D", 50, "visibility-change"), lake.change(5, "E", 51, "delete")]
    chunks = [[lake.change(1, "A", 1), lake.change(2, "B", 2)], [], [lake.change(3, "C", 65), *others]]
    load = warehouse.load_snapshot(lake.snapshot(chunks))
    assert (load.changed, load.is_base, load.file_count, load.row_count, load.duplicate_count) == (True, True, 3, 5, 0)
    assert load.boundary_at == lake.hour(0) + timedelta(minutes=55)
    assert articles(warehouse) == [], "nothing moves before it is applied"
    applied = warehouse.apply_changes()
    assert (applied.renewed_projects, applied.written_count, applied.row_count) == (("enwiki",), 4, 4)
    assert articles(warehouse) == [(1, "A"), (2, "B"), (3, "C"), (4, "D")]
    (hour,) = ask(warehouse, "SELECT DISTINCT source_at FROM articles")[0]
    assert timedelta(0) < hour - load.boundary_at < timedelta(seconds=1)
    assert ask(warehouse, "SELECT source_at FROM snapshots") == [(hour,)]
    assert agrees_with_rebuild(warehouse, state)


def test_same_version_again_is_a_no_op_that_says_so_and_converted_anew_it_replaces_the_old_files(lake, warehouse):
    snapshot = lake.snapshot([[lake.change(1, "A", 1, abstract="old")] * 2, []], version="e" * 32)
    first = warehouse.load_snapshot(snapshot)
    warehouse.apply_changes()
    again = warehouse.load_snapshot(snapshot)
    assert replace(again, seconds=first.seconds) == replace(first, changed=False)
    assert not warehouse.apply_changes().changed
    assert warehouse.load_snapshot(snapshot, reload=True).changed
    assert (warehouse.apply_changes().renewed_projects, counts(warehouse)) == (("enwiki",), [1, 2, 1, 0, 1])
    anew = lake.snapshot([[lake.change(1, "A", 1, abstract="new")], []], version="e" * 32)
    assert warehouse.load_snapshot(anew).changed
    warehouse.apply_changes()
    assert (ask(warehouse, "SELECT abstract FROM articles"), counts(warehouse)) == ([("new",)], [1, 2, 1, 0, 0])


def test_repeated_pages_count_once_wherever_they_stand(lake, warehouse, state):
    page, older = lake.change(1, "A", 1, html="<p>a"), lake.change(1, "A", 0, version_id=1001, html="<p>older")
    other = page | {"abstract": "other", "html": "<p>of the second file"}
    pages = [page | {"change_type": "delete"}, lake.change(2, "B", 2, html="b"), page, page]
    load = warehouse.load_snapshot(lake.snapshot([pages, [other, older]]))
    assert (load.row_count, load.duplicate_count) == (6, 4)
    assert sum(n for (n,) in ask(warehouse, "SELECT duplicate_count FROM loads")) == 4
    warehouse.apply_changes()
    assert articles(warehouse) == [(1, "A"), (2, "B")]
    assert agrees_with_rebuild(warehouse, state)
    warehouse.publish()
    assert warehouse.sql("SELECT article_id, html FROM article_bodies ORDER BY 1").rows == [(1, "<p>a"), (2, "b")]
    assert warehouse.sql("SELECT article_id, name FROM snapshot_articles ORDER BY 1").rows == [(1, "A"), (2, "B")]


def test_changes_before_beside_and_after_the_snapshot(lake, warehouse, state):
    """The boundary is minute 140: updates before it do not count, deletes always do."""
    first = [lake.change(7, "Gone in a gap", 5), lake.change(1, "A", 6, abstract="old")]
    warehouse.load_hour(lake.hour(0), [lake.file(0, first)])
    warehouse.apply_changes()
    assert articles(warehouse) == [(1, "A"), (7, "Gone in a gap")]
    base = [lake.change(1, "A", 90), lake.change(2, "Lingers", 80), lake.change(3, "C", 150)]
    warehouse.load_snapshot(lake.snapshot([base]))
    warehouse.apply_changes()
    assert articles(warehouse) == [(1, "A"), (2, "Lingers"), (3, "C")]
    second = [lake.change(2, "Lingers", 100, "delete"), lake.change(8, "Too old", 119)]
    warehouse.load_hour(lake.hour(1), [lake.file(1, second)])
    warehouse.load_hour(lake.hour(2), [lake.file(2, [lake.change(9, "Beside", 145), lake.change(1, "Moved", 145)])])
    warehouse.apply_changes()
    assert articles(warehouse) == [(1, "Moved"), (3, "C"), (9, "Beside")]
    assert agrees_with_rebuild(warehouse, state)


def test_replaced_versions_stay_and_older_ones_go(lake, warehouse):
    made = [lake.snapshot([[lake.change(1, "A", minute)]]) for minute in (100, 200, 300, 400)]
    loads = [warehouse.load_snapshot(snapshot, keep_replaced=1) for snapshot in made]
    first, second, *_ = ((one.snapshot_version,) for one in made)
    assert [load.dropped_versions for load in loads] == [(), (), first, second]
    kept = {one.snapshot_version: START for one in made[2:]}
    assert warehouse.snapshot_versions(datasets.SNAPSHOT_ARTICLES) == {made[0].snapshot_id: kept}
    found = ask(warehouse, "SELECT snapshot_version FROM snapshots ORDER BY boundary_at")
    assert found == [(one.snapshot_version,) for one in made[2:]]
    assert counts(warehouse)[:2] == [2, 2]
    assert not warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 350)]]), keep_replaced=2).is_base
    assert warehouse.apply_changes().renewed_projects == ("enwiki",)
    assert ask(warehouse, "SELECT version_id FROM articles") == [(1400,)]
    assert not warehouse.apply_changes().changed
    # a version beside the base makes nothing anew
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 360)]]), keep_replaced=2)
    applied = warehouse.apply_changes()
    assert (applied.changed, applied.renewed_projects) == (False, ())
    assert ask(warehouse, "SELECT count(*) FROM snapshots WHERE applied_at IS NULL") == [(0,)]


def test_project_that_is_dropped_is_forgotten_and_can_come_back(lake, warehouse, make, state):
    snapshot = lake.snapshot([[lake.change(1, "A", 50), lake.change(1, "A", 50)]])
    hour = lake.file(0, [lake.change(1, "A", 55, "delete"), lake.change(2, "B", 56)])
    other = lake.file(0, [lake.change(3, "F", 5)], "frwiki")
    template = lake.file(0, [lake.change(2, "B", 57, "delete"), lake.change(4, "T", 3)], namespace=10)
    warehouse.load_snapshot(snapshot)
    warehouse.load_hour(lake.hour(0), [hour, template])
    warehouse.load_lookups([lake.lookups(90, ("B", None))])
    warehouse.apply_changes()
    warehouse.load_hour(lake.hour(0), [other])
    warehouse.load_snapshot(lake.snapshot([[lake.change(5, "D", 5)]], "dewiki"))
    dropped = warehouse.drop_project("enwiki")
    assert (dropped.hours, dropped.renewed_projects) == ((lake.hour(0),), ("dewiki", "enwiki"))
    assert (articles(warehouse), counts(warehouse)) == ([(3, "F"), (5, "D")], [1, 2, 2, 0, 0])
    assert ask(warehouse, "SELECT count(*) FROM lookups") == [(0,)]
    assert ask(warehouse, "SELECT DISTINCT project_id FROM hours") == [("frwiki",)]
    assert [row.project_id for row in warehouse.project_states(published=False)] == ["dewiki", "frwiki"]
    assert agrees_with_rebuild(warehouse, state)
    warehouse.load_hour(lake.hour(0), [hour])
    warehouse.load_snapshot(snapshot)
    warehouse.apply_changes()
    assert articles(warehouse) == [(2, "B"), (3, "F"), (5, "D")]
    assert agrees_with_rebuild(warehouse, state)


def test_base_that_is_loaded_anew_with_older_rows_gives_way_to_the_one_beneath(lake, warehouse, state, clock):
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 100), lake.change(2, "B", 90)]]))
    clock.now += timedelta(hours=1)
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 200)]], version="e" * 32))
    warehouse.apply_changes()
    assert articles(warehouse) == [(1, "A")]
    with warehouse.auditing() as auditor:  # of the newest
        audits = auditor.snapshots(["enwiki_namespace_0"], datasets.SNAPSHOT_ARTICLES)
    assert [(audit.row_count, audit.expected_count) for audit in audits.values()] == [(1, 1)]
    assert not warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 50)]], version="e" * 32)).is_base
    assert warehouse.apply_changes().renewed_projects == ("enwiki",)
    assert articles(warehouse) == [(1, "A"), (2, "B")]
    assert agrees_with_rebuild(warehouse, state)


def test_equal_boundaries_are_told_apart_by_the_version_whatever_was_loaded_first(lake, warehouse):
    same = [lake.snapshot([[lake.change(1, "A", 70)]], tag=str(number)) for number in range(3)]
    bases = []
    for snapshot in (*same, *reversed(same)):
        assert warehouse.load_snapshot(snapshot, reload=True).boundary_at == lake.hour(1)
        bases.append(ask(warehouse, "SELECT snapshot_version FROM internal.bases"))
    assert bases[2:] == [[(max(snapshot.snapshot_version for snapshot in same),)]] * 4
    hours = [hour for (hour,) in ask(warehouse, "SELECT DISTINCT source_at FROM snapshots")]
    assert len(hours) == 3
    assert all(hour.microsecond for hour in hours)


def test_files_that_are_not_whole_change_nothing(lake, warehouse):
    good = lake.snapshot([[lake.change(1, "A", 1)]])
    warehouse.load_snapshot(good)
    warehouse.apply_changes()
    before = counts(warehouse)
    bad = lake.snapshot([[lake.change(2, "B", 300)], [lake.change(3, "C", 301), lake.change(4, "D", 302)]])
    one, two = bad.files
    spoilt = {
        "1 of its 2 files": replace(bad, files=bad.files[:1]),
        "2 rows, but 3 were expected": replace(bad, files=(one, replace(two, row_count=3, update_count=3))),
        r"2 were expected \(1 by": replace(bad, files=(one, replace(two, update_count=1))),
        "0 lines, but 4 were expected": replace(bad, files=(one, replace(two, reject_count=4))),
        "contain 3 rows of another snapshot": replace(bad, project_id="frwiki"),
        "is missing": replace(bad, files=(one, replace(two, path=two.path.with_name("other.parquet")))),
        "folder of its partition": replace(bad, files=(one, replace(two, path=good.files[0].path))),
        "has no pages": lake.snapshot([[], []]),
    }
    for words, snapshot in spoilt.items():
        with pytest.raises(LakeFileError, match=words):
            warehouse.load_snapshot(snapshot)
    zeros(two.path)
    damaged = rf"(?s)^1 of the files of snapshot .* could not be loaded .*: lake file {two.path} \(.*Remove these"
    with pytest.raises(LakeFileError, match=damaged):
        warehouse.load_snapshot(bad)
    with pytest.raises(LakeFileError, match="1 of its 2 files"):
        warehouse.load_snapshot(replace(bad, files=(one, one)))
    many = lake.snapshot([[lake.change(number, "A", 300)] for number in range(7)])
    for file in many.files:
        zeros(file.path)
    with pytest.raises(LakeFileError, match=r"(?s)^7 of the files .* and 2 more\. Nothing was loaded") as told:
        warehouse.load_snapshot(many)
    assert str(told.value).count("lake file ") == 5
    assert (counts(warehouse), articles(warehouse)) == (before, [(1, "A")])


def test_rejects_of_a_snapshot_are_kept_and_go_with_it(lake, warehouse, tmp_path):
    snapshot = lake.snapshot([[lake.change(1, "A", 1)], [lake.change(2, "B", 1)]])
    line = {"archive": "a.tar.gz", "member": "m", "line_number": 3, "byte_offset": 9, "reason": "not JSON", "raw": b"{"}
    line |= {"raw_bytes": 1, "raw_path": None, "raw_offset": None}
    path = tmp_path / "rejects.parquet"
    schema = pa.schema([field for field in REJECTED_LINES.schema if field.name in line])
    pq.write_table(pa.Table.from_pylist([line], schema=schema), path)
    first, second = snapshot.files
    file = replace(second, rejects_path=path, reject_count=1)
    spoilt = path.with_name("spoilt.parquet")
    optional = pa.schema([field.with_nullable(True) for field in schema])
    pq.write_table(pa.Table.from_pylist([line | {"reason": None}], schema=optional), spoilt)
    with pytest.raises(LakeFileError, match=rf"enwiki_namespace_0 .*: rejects file {spoilt} \(no value in reason"):
        warehouse.load_snapshot(replace(snapshot, files=(first, replace(file, rejects_path=spoilt))))
    assert warehouse.load_snapshot(replace(snapshot, files=(first, file))).reject_count == 1
    source = "SELECT project_id, raw FROM rejects JOIN snapshots USING (source_at, project_id)"
    assert ask(warehouse, source) == [("enwiki", b"{")]
    warehouse.load_snapshot(lake.snapshot([[lake.change(1, "A", 99)]]), keep_replaced=0)
    assert counts(warehouse)[3] == 0


def test_bodies_of_snapshots_and_hours_are_one_join_away(lake, warehouse):
    base = [lake.change(1, "A", 90, html="a0"), lake.change(2, "B", 80, html="b0"), lake.change(3, "C", 100, html="c0")]
    warehouse.load_snapshot(lake.snapshot([base[:2], base[2:]]))
    again = lake.snapshot([base[2:]], tag="again")
    warehouse.load_snapshot(replace(again, exported_at=again.exported_at + timedelta(days=1)))
    warehouse.load_hour(lake.hour(1), [lake.file(1, [base[2], lake.change(1, "A", 110, html="a1")], rejects=[b"x"])])
    warehouse.load_snapshot(lake.snapshot([[lake.change(4, "F", 1, html="f0")]], "frwiki"))
    undated = lake.snapshot([[lake.change(4, "F", 1, html="f1")]], "frwiki")
    warehouse.load_snapshot(replace(undated, exported_at=None))
    assert warehouse.publish().lake_file_count == 6
    joined = "articles JOIN article_bodies USING (project_id, article_id, version_id, source_at)"
    found = warehouse.sql(f"SELECT name, html FROM {joined} ORDER BY name").rows
    assert found == [("A", "a1"), ("C", "c0"), ("F", "f0")]
    unique = "SELECT count(*), count(DISTINCT (project_id, article_id, version_id, source_at)) FROM article_bodies"
    assert warehouse.sql(unique).rows == [(8, 8)]


def test_question_for_one_version_opens_its_files_only(lake, warehouse):
    old = lake.snapshot([[lake.change(1, "A", 100, html="old")]])
    new = lake.snapshot([[lake.change(1, "A", 200, html="new")]])
    for snapshot in (old, new, lake.snapshot([[lake.change(1, "F", 100, html="f")]], "frwiki")):
        warehouse.load_snapshot(snapshot)
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1, html="hour")])])
    warehouse.publish()
    for path in (warehouse.data / "lake").rglob("*.parquet"):
        if path != new.files[0].path:
            zeros(path)
    (hour,) = ask(warehouse, "SELECT max(source_at) FROM snapshots")[0]
    query = "SELECT html FROM article_bodies WHERE source_at = ? AND project_id = 'enwiki'"
    assert warehouse.sql(query, [hour]).rows == [("new",)]
    query = "SELECT name FROM snapshot_articles WHERE snapshot_version = ?"
    assert warehouse.sql(query, [new.snapshot_version]).rows == [("A",)]
    with pytest.raises(QueryError):
        warehouse.sql("SELECT html FROM article_bodies")


def test_lake_file_of_a_snapshot_that_is_gone_is_left_out_and_said(lake, warehouse):
    snapshot = lake.snapshot([[lake.change(1, "A", 1, html="a")], [lake.change(2, "B", 1, html="b")]])
    warehouse.load_snapshot(snapshot)
    warehouse.apply_changes()
    snapshot.files[0].path.unlink()
    made = warehouse.publish()
    assert (made.lake_file_count, made.missing_lake_file_count) == (1, 1)
    assert warehouse.sql("SELECT html, (SELECT count(*) FROM articles) FROM article_bodies").rows == [("b", 2)]
