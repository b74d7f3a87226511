"""Compacted files: the same rows, whatever happens in between, and few files however long the history is."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.steps import compaction
from assets.steps.compaction import compact_lake
from resources.datasets.paths import with_bodies
from resources.engine import Engine
from resources.lake import LakeError, Layout
from resources.lake.parquet import compaction as rewriting
from resources.lake.parquet import sorting
from resources.lake_files import CompactedFile
from resources.warehouse import LakeFileError, Warehouse, WarehouseBusyError, named_in
from resources.warehouse.compaction.plan import SPANS, Unit, merges
from resources.warehouse.database.connect import answer
from tests.builds import ask, shown
from tests.unit.warehouse.conftest import START, compact, lake_files, rewritten

PROJECTS = ("dewiki", "enwiki")
#: Makes four files of an hour, which are compacted by themselves; two are not.
BOTH = (0, 10)


def files_of(lake, hour, edition=0, projects=PROJECTS, namespaces=(0,)):
    """An hour's files with repeated events, deletes and pages in both namespaces. Editions differ."""
    files = []
    for number, project in enumerate(projects):
        for namespace in namespaces:
            rows = []
            for page in range((hour + number + edition) % 3, 9, 2):
                texts = {"html": f"<p>{project} {page} at {hour}, {edition}</p>" * 20}
                texts |= {"wikitext": f"{page} {hour} {edition}", "event_id": f"{edition}-{hour}-{page}-{namespace}"}
                rows.append(lake.change(100 * number + page, f"Page {page}", 60 * hour + page, **texts))
            rows.append(dict(rows[0]))
            rows.append(lake.change(100 * number + 50, "Gone", 60 * hour + 30, "delete"))
            files.append(lake.file(hour, rows, project, namespace))
    return files


def load(made, hours, edition=0, **more):
    for hour in hours:
        made.warehouse.load_hour(made.lake.hour(hour), files_of(made.lake, hour, edition, **more))
    made.warehouse.apply_changes()


def content(warehouse):
    """What analysts would see."""
    with shown(warehouse) as connection:
        views = ("article_bodies", "articles", "article_changes")
        return {what: answer(connection, f"SELECT * FROM {what} ORDER BY ALL") for what in views}


def first_hours(made, count, namespaces=(0,)):
    """Loads them; returns what analysts see."""
    load(made, range(count), namespaces=namespaces)
    return content(made.warehouse)


def test_a_day_becomes_one_file_with_the_same_rows_in_all_columns(mirror, again):
    before = again(mirror, first_hours, 2, BOTH)
    lake = f"'{mirror.data}/lake/article_changes/**/*.parquet'"
    mirror.warehouse.load_hour(mirror.lake.hour(2), [mirror.lake.file(2, [])])
    [done] = compact(mirror, days=3)
    assert (done.read_files, done.written_files, done.given_up_count) == (9, 1, 0)
    assert content(mirror.warehouse) == before
    noted = "SELECT span, first_hour, end_hour, row_count, compacted_at FROM compacted_files"
    hours = (mirror.lake.hour(0), mirror.lake.hour(24))
    assert ask(mirror.warehouse, noted) == [("day", *hours, done.row_count, mirror.warehouse._clock.now)]
    [bodies] = lake_files(mirror.warehouse)
    rows = bodies.replace(".bodies.", ".rows.")
    [(names, _)] = named_in(mirror.warehouse.build_path)  # of which a backup has both
    assert [str(mirror.data / "lake" / name) for name in names] == [rows, bodies]
    with duckdb.connect() as alone:
        # repeated events apart, which are in no table
        rows_once = f"SELECT DISTINCT * FROM read_parquet({lake}, hive_partitioning = false) ORDER BY ALL"
        written = alone.sql(rows_once).to_arrow_table()
        query = f"FROM '{rows}' AS one POSITIONAL JOIN '{bodies}' AS other"
        columns = ", ".join(f"{'other' if n in ('html', 'wikitext') else 'one'}.{n}" for n in written.column_names)
        assert alone.sql(f"SELECT {columns} {query} ORDER BY ALL").to_arrow_table().equals(written)
        keys = ("project_id", "article_id", "version_id", "batch_hour", "namespace_id", "file_row", "change_type")
        same = " AND ".join(f"one.{key} = other.{key}" for key in keys)
        assert alone.execute(f"SELECT count(*) {query} WHERE {same}").fetchall() == [(len(written),)]
        found = alone.execute(f"SELECT {', '.join(keys[:4])} FROM '{rows}'").fetchall()
        assert (found, len(pq.read_schema(bodies))) == (sorted(found), len(keys) + 2)
    assert compact(mirror) == []
    mirror.warehouse.publish()
    found = mirror.warehouse.sql("SELECT name, wikitext FROM article_text('enwiki', 'Page_3')").rows
    assert found == [("Page 3", "3 0 0")]
    Path(rows).unlink()  # which no view reads, and the next compaction does
    assert mirror.warehouse.publish().missing_lake_file_count == 1


@pytest.mark.parametrize("file_bytes", [1, pytest.param(10_000, marks=pytest.mark.soak)])
def test_rows_lie_in_larger_row_groups_than_their_bodies_and_both_files_end_with_the_same_row(
    mirror, again, monkeypatch, file_bytes
):
    before = again(mirror, first_hours, 2)
    monkeypatch.setattr(sorting, "GROUP_ROWS", 3)
    monkeypatch.setattr(rewriting, "_TOGETHER", 4)
    monkeypatch.setattr(compaction, "FILE_BYTES", file_bytes)
    [done] = compact(mirror, days=3)
    assert done.written_files > 1
    # what is read back to be written once more lies in row groups of two sizes
    load(mirror, [1], 1)
    load(mirror, [1])
    [done] = compact(mirror, 12)
    assert content(mirror.warehouse) == before
    bodies = lake_files(mirror.warehouse)
    assert len(bodies) == done.written_files > 1
    keys = ["project_id", "article_id", "version_id", "batch_hour", "namespace_id", "file_row", "change_type"]
    ends = "SELECT first_project_id, last_project_id FROM compacted_files WHERE ends_with($1, lake_path)"
    for path in bodies:
        with pq.ParquetFile(path) as short, pq.ParquetFile(path.replace(".bodies.", ".rows.")) as wide:
            assert (rows := wide.read(keys)).equals(short.read(keys))
            [known] = ask(mirror.warehouse, ends, [path.replace(".bodies.", ".rows.")])
            assert known == (rows["project_id"][0].as_py(), rows["project_id"][-1].as_py())
            counts = [[one.metadata.row_group(n).num_rows for n in range(one.num_row_groups)] for one in (wide, short)]
            assert counts[0] == [sum(counts[1][n : n + 4]) for n in range(0, len(counts[1]), 4)]


def test_rows_of_files_that_come_in_other_batches_stay_beside_each_other(tmp_path):
    def file(*lengths):
        path, starts = tmp_path / "a.parquet", [sum(lengths[:n]) for n in range(len(lengths))]
        pq.write_table(table, path)
        batches = [table.slice(*span).to_batches()[0] for span in zip(starts, lengths, strict=True)]
        return SimpleNamespace(metadata=pq.read_metadata(path), iter_batches=lambda _: iter(batches))

    table = pa.table({"n": range(6)})
    pairs = list(rewriting._side_by_side([file(3, 3), file(1, 5)], ["a", "b"]))
    assert all(one.equals(other) for one, other in pairs)
    assert sum(len(one) for one, _ in pairs) == 6


def test_a_row_group_is_full_before_the_row_that_exceeds_its_bytes():
    table = pa.table({"text": ["a" * 10, "b" * 10, "c" * 95, "d", "e"]})
    assert [group.num_rows for group in sorting.row_groups([table], 100)] == [2, 1, 2]


def test_bodies_of_months_lie_in_larger_row_groups(mirror, again, monkeypatch):
    before = again(mirror, first_hours, 2)
    monkeypatch.setattr(compaction, "_SMALL_GROUP_BYTES", 1)
    monkeypatch.setattr(compaction, "_GROUP_BYTES", {"month": 1 << 20})
    found = {}
    for days, hours in ((2, []), (60, [24])):
        load(mirror, hours, namespaces=BOTH)
        done, *_ = compact(mirror, days)
        assert done.merge.span not in found
        [path] = lake_files(mirror.warehouse)
        with pq.ParquetFile(path) as file:
            found[done.merge.span] = (file.metadata.num_row_groups, file.metadata.num_rows)
    assert found["day"][0] == found["day"][1]
    assert (found["month"][0], found["month"][1] > found["day"][1]) == (1, True)
    kept = [row for row in content(mirror.warehouse)["article_bodies"] if row in set(before["article_bodies"])]
    assert kept == before["article_bodies"]


def test_what_is_dropped_is_left_out_and_what_comes_back_as_it_was_is_compacted_into_the_same_file(mirror, again):
    before = again(mirror, first_hours, 1, BOTH)
    mirror.warehouse._clock.now = mirror.lake.hour(1) + timedelta(minutes=40)
    assert [one.merge.span for one in compact(mirror)] == ["hour"]
    [first] = lake_files(mirror.warehouse) if content(mirror.warehouse) == before else []
    for project in PROJECTS:
        mirror.warehouse.drop_project(project)
    load(mirror, [0], namespaces=BOTH)
    compact(mirror)
    assert (content(mirror.warehouse), lake_files(mirror.warehouse)) == (before, [first])
    # an hour whose compacted file is gone is loaded again, though it is as it was
    Path(first).unlink()
    load(mirror, [0], namespaces=BOTH)
    assert content(mirror.warehouse) == before
    compact(mirror)
    mirror.warehouse.drop_project("enwiki")
    assert (mirror.warehouse.dropped_in("enwiki"), mirror.warehouse.dropped_in("dewiki")) == (1, 0)
    [done] = compact(mirror)
    assert (done.read_files, mirror.warehouse.dropped_in("enwiki")) == (1, 0)
    with duckdb.connect() as alone:
        [path] = lake_files(mirror.warehouse)
        assert alone.execute(f"SELECT DISTINCT project_id FROM '{path}'").fetchall() == [("dewiki",)]
    assert compact(mirror) == []


def test_what_cannot_be_compacted_keeps_nothing_else_from_it_and_the_disk_is_never_filled(mirror):
    load(mirror, [0, 24], namespaces=BOTH)
    before = content(mirror.warehouse)
    mirror.warehouse._clock.now += timedelta(days=3)
    with pytest.raises(LakeError, match=r"must leave 1,?000,?000.* free .*The files are unchanged\. Free some space"):
        compact_lake(Layout(mirror.data), mirror.warehouse, Engine(workers=1), min_free_gb=1e6)
    assert len(lake_files(mirror.warehouse)) == 8
    whole = (damaged := Path(lake_files(mirror.warehouse)[-1])).read_bytes()
    damaged.write_bytes(whole[:-100])
    again = r"nothing was changed\. If the archive still exists, the next publication converts it again"
    with pytest.raises(LakeError, match=f"(?i)cannot be read .*{again}"):
        compact(mirror)
    damaged.write_bytes(whole)
    assert (content(mirror.warehouse), len(lake_files(mirror.warehouse))) == (before, 5)


def test_files_gone_or_with_other_rows_are_not_taken_in_and_what_is_loaded_meanwhile_keeps_its_own(make, again):
    compacted, plain = make(), make()
    for made in (compacted, plain):
        before = again(made, first_hours, 2, BOTH)
    merge, files, counts, dataset = rewritten(compacted, days=3)

    def refused(files, counts, match):
        with pytest.raises(LakeFileError, match=match):
            compacted.warehouse.commit_compaction(merge, files, counts, dataset)

    refused([CompactedFile("compacted/x.parquet", 1, 1, "a", "b")], counts, "is missing; nothing was changed")
    beside = compacted.data / "lake" / with_bodies(files[0].lake_path)
    whole = beside.read_bytes()
    beside.unlink()
    refused(files, counts, r"\.bodies\.parquet is missing; nothing was changed")
    beside.write_bytes(whole)
    refused(files, counts | {next(iter(counts)): 1}, r"has 1 rows in the new files\. Nothing was changed")
    refused(files, counts | {("zz", "zzwiki", 0): 1}, r"There are unexpected rows\. Nothing was changed")
    assert content(compacted.warehouse) == before
    for made in (compacted, plain):
        load(made, [1], 1, projects=["enwiki"], namespaces=(0,))
        made.warehouse.drop_project("dewiki")
    assert compacted.warehouse.commit_compaction(merge, files, counts, dataset) == 3 == len(merge.parts) - 5
    query = "SELECT DISTINCT project_id, reason FROM internal.hidden_rows WHERE file_row IS NULL ORDER BY ALL"
    assert ask(compacted.warehouse, query) == [("dewiki", "dropped"), ("enwiki", "reloaded")]
    assert (content(compacted.warehouse), len(lake_files(compacted.warehouse))) == (content(plain.warehouse), 2)


def test_two_compactions_at_a_time_are_one_too_many(mirror, again):
    again(mirror, first_hours, 2)
    busy = r"more than 0 s, so .* could not compact the lake"
    with Warehouse(mirror.data).compacting(), pytest.raises(WarehouseBusyError, match=busy):
        compact(mirror, days=3)


def test_a_kill_at_any_phase_leaves_what_the_next_compaction_finishes(mirror, again, killing):
    before = again(mirror, first_hours, 2)
    with killing(mirror.data, "2026-11-09") as kill_at:
        # a file is written before its bodies are
        for *phases, phase in (("spilling", "writing", "written"), ("taking in",), ("taken in",)):
            for one in (*phases, phase):
                kill_at(one)
            assert content(mirror.warehouse) == before, phase
            assert len(lake_files(mirror.warehouse)) == (1 if phase == "taken in" else 4), phase
    assert compact(mirror, 0.25) == []
    assert (list(mirror.data.rglob("*.unfinished")), content(mirror.warehouse)) == ([], before)


def test_pieces_beyond_number_are_merged_with_few_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sorting, "_AT_ONCE", 4)
    monkeypatch.setattr(sorting, "_SLICES", 2)
    chance, most = random.Random(1), 0

    def batches():
        nonlocal most
        for number in range(70):
            most = max(most, len(list(tmp_path.iterdir())))
            rows = [{"article_id": chance.randint(0, 99), "version_id": number, "file_row": n} for n in range(3)]
            more = {"project_id": "a", "batch_hour": START, "namespace_id": 0, "text": "x" * 400}
            yield pa.RecordBatch.from_pylist([row | more for row in rows])

    found, key = [], ("project_id", "article_id", "version_id", "batch_hour", "namespace_id", "file_row")
    for table in sorting.in_order(batches(), key, tmp_path / "a.parquet", 4 * 2000):
        found += table.select(["article_id", "version_id", "file_row"]).to_pylist()
        assert len(list(tmp_path.iterdir())) < 4
    keys = [tuple(row.values()) for row in found]
    assert (len(set(keys)), keys) == (210, sorted(keys))
    assert most <= 3 * 4 + 1
    assert list(tmp_path.iterdir()) == []


def test_months_of_hours_are_some_dozens_of_files_and_no_row_is_written_often():
    """Forty projects for six weeks, compacted each hour; a straggler comes hours later now and then."""
    start = datetime(2026, 8, 3, tzinfo=UTC)
    units: list[Unit] = []
    written: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    most = 0
    for hour in range(42 * 24):
        first = start + timedelta(hours=hour)
        units += [Unit(f"{hour}-{project}", None, first, 1, 50_000) for project in range(39 if hour % 7 else 40)]
        if hour > 5 and hour % 7 == 1:
            units.append(Unit(f"{hour - 5}-late", None, first - timedelta(hours=5), 1, 50_000))
        for merge in merges(units, first + timedelta(hours=1, minutes=35)):
            name = f"{merge.span} {merge.first_hour} {hour}"
            parts[name] = [part for unit in merge.units for part in parts.pop(unit.name, [unit.name])]
            written.update(parts[name])
            units = [unit for unit in units if unit.name not in {unit.name for unit in merge.units}]
            units.append(Unit(name, merge.span, merge.first_hour, 1, merge.lake_bytes))
        if hour > 48:
            most = max(most, len(units))
    assert most <= 45
    assert max(written.values()) <= len(SPANS)


def test_files_of_the_greatest_size_are_left_alone():
    start = datetime(2026, 8, 1, tzinfo=UTC)
    units = [Unit(str(day), "day", start + timedelta(days=day), 2, 1_900_000_000) for day in range(31)]
    assert merges(units, start + timedelta(days=90)) == []
    small = [Unit(str(day), "day", start + timedelta(days=day), 1, 90_000_000) for day in range(31)]
    small += [Unit(f"{day} later", "day", start + timedelta(days=31 + day), 1, 90_000_000) for day in range(30)]
    found = [(merge.file_count, merge.label) for merge in merges(small, start + timedelta(days=90))]
    assert found == [(30, "month from 2026-09-01 00:00 UTC"), (31, "month from 2026-08-01 00:00 UTC")]


def test_a_window_is_compacted_when_it_has_ended_for_its_time():
    moment = datetime(2026, 8, 11, 5, tzinfo=UTC)
    units = [Unit(str(number), None, moment, 1, 9) for number in range(4)]
    for span in SPANS:
        due = span.end(span.start(moment)) + span.age
        assert [one.span for one in merges(units, due)] == [span.name]
        assert span.name not in [one.span for one in merges(units, due - timedelta(microseconds=1))]
    assert SPANS[3].start(moment.replace(day=31)) == moment.replace(day=21, hour=0)
