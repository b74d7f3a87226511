"""Steps of a stream in the lake: every event once, whatever comes again, is killed or cannot be read."""

import gzip
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from resources.data_folder import copying
from resources.datasets.live import Run
from resources.lake.errors import LakeError
from resources.lake.live import LiveLake
from resources.lake.stream_events import pieces
from resources.tables import ARTICLE_CHANGES
from tests.unit.lake.poisoned import event, line_of

NOW = datetime(2026, 11, 1, 5, 59, tzinfo=UTC)


def record(partition, offset, **more):
    one = event(partition, offset, f"{partition}-{offset}", NOW + timedelta(seconds=offset), **more)
    return one | {"version": {"identifier": offset + 1}}


def lines(*records):
    return b"".join(line_of(one) + b"\n" for one in records)


def lake_of(layout):
    return LiveLake(layout, "live_changes", ARTICLE_CHANGES)


def stored(layout):
    """Partition and offset of every event in the lake."""
    found = ds.dataset([str(path) for path in lake_of(layout).files()]).to_table(["event_partition", "event_offset"])
    return Counter(zip(found["event_partition"].to_pylist(), found["event_offset"].to_pylist(), strict=True))


def test_events_and_the_place_at_which_the_stream_goes_on_lie_in_one_file(layout):
    lake, since = lake_of(layout), NOW - timedelta(hours=3)
    assert lake.last() is None
    assert lake.begin(since, NOW).since == lake_of(layout).begin(NOW, NOW).since == since
    step = lake.add([lines(record(3, 7), record(3, 9), record(8, 100))], NOW)
    assert step.path == layout.lake / "live_changes/date=2026-11-01/hour=05/000000000002.parquet"
    assert (step.row_count, step.duplicate_count, step.reject_count, step.offsets) == (3, 0, 0, {3: 10, 8: 101})
    assert (lake_of(layout).last(), step.since) == (step, since)
    assert pq.read_metadata(step.path).num_row_groups == 1
    rows = ds.dataset(str(step.path)).to_table().to_pylist()
    # an event belongs to the hour in which it was published
    assert [row["batch_hour"].hour for row in rows] == [5, 5, 6]
    assert {row["project_id"] for row in rows} == {"enwiki"}
    assert (lake.add([lines(record(3, 7), record(3, 9))], NOW), lake.add([], NOW)) == (None, None)
    published = {partition: NOW + timedelta(seconds=offset) for partition, offset in {3: 9, 8: 101}.items()}
    assert lake.add([lines(record(8, 101))], NOW).published_at == published


def test_only_what_is_mirrored_is_kept_and_all_is_passed(layout):
    scope, kept = [("enwiki", 0), ("frwiki", 14)], {"html": "h", "wikitext": "w"}
    lake = LiveLake(layout, "live_changes", ARTICLE_CHANGES, bodies=frozenset({"html"}), scope=scope)
    since = NOW - timedelta(hours=1)
    assert lake.begin(since, NOW).kept_since == {("enwiki", 0): since, ("frwiki", 14): since}
    others = [record(2, 5, is_part_of={"identifier": "frwiki"}), record(2, 6, namespace={"identifier": 14})]
    assert lake.add([lines(*others)], NOW) is None
    step = lake.add([lines(*others, *[record(2, 7, article_body=kept)] * 2)], NOW)
    assert pq.read_table(step.path, columns=[*kept]).to_pylist() == [kept | {"wikitext": None}]
    assert (step.row_count, step.other_count, step.offsets, step.event_counts) == (1, 2, {2: 8}, {2: 1})
    step = lake.add(foreign := [lines(record(2, 8, is_part_of={"identifier": "dewiki"}))], NOW, always=True)
    assert (step.row_count, step.other_count, step.offsets) == (0, 1, {2: 9})
    assert lake.add(foreign, NOW, always=True) is None
    assert stored(layout) == Counter([(2, 7)])


def test_it_says_since_when_each_project_and_namespace_is_kept(layout):
    def kept(*scope, offset):
        lake = LiveLake(layout, "live_changes", ARTICLE_CHANGES, scope=scope)
        lake.begin(NOW, NOW)
        return dict(lake.add([lines(record(1, offset))], NOW).kept_since)

    enwiki, frwiki, dewiki = ("enwiki", 0), ("frwiki", 0), ("dewiki", 0)
    lake_of(layout).add([lines(record(1, 1), record(2, 0), record(9, 2))], NOW)  # without a scope, all is kept
    assert kept(enwiki, frwiki, offset=2) == {enwiki: NOW, frwiki: NOW}
    # one that is new is kept from where the stream was; one that was left out for a while has a gap
    assert kept(enwiki, dewiki, offset=3) == {enwiki: NOW, dewiki: NOW + timedelta(seconds=2)}
    assert kept(enwiki, frwiki, offset=4) == {enwiki: NOW, frwiki: NOW + timedelta(seconds=3)}
    assert lake_of(layout).last().kept_until == NOW + timedelta(seconds=2)


def test_it_says_how_each_run_read_the_stream(layout):
    def run(number):
        return Run(NOW + timedelta(hours=number), NOW + timedelta(hours=number, minutes=1), 10, number)

    lake = lake_of(layout)
    assert lake.add([lines(record(1, 1))], NOW).runs == ()
    lake.add([lines(record(1, 2), record(2, 1))], NOW, run=run(1))
    again = replace(run(1), kept_at=NOW + timedelta(hours=1, minutes=2), reconnect_count=4)
    lake.add([lines(record(1, 2), record(1, 3)) + b"no record\n"], NOW, run=again)
    step = lake_of(layout).add([lines(record(1, 3), record(2, 5))], NOW, run=run(2))
    assert step.event_counts == {1: 3, 2: 2}
    first, second = step.runs
    assert first == replace(again, event_count=3, duplicate_count=1, reject_count=1)
    assert (second.event_count, second.duplicate_count, second.kept_at) == (1, 1, run(2).kept_at)
    step = lake_of(layout).add([lines(record(1, 4))], NOW, run=run(2))
    assert [one.event_count for one in step.runs] == [3, 2]
    for number in range(3, 27):
        step = lake.add([lines(record(1, 2 * number))], NOW, run=run(number))
    assert [one.reconnect_count for one in lake_of(layout).last().runs] == list(range(3, 27))
    assert lake_of(layout).last() == step
    assert lake.add([lines(record(1, 99))], NOW).runs == step.runs


def test_a_clock_that_is_set_back_and_comes_again_to_the_same_hour_loses_nothing(layout, monkeypatch):
    monkeypatch.setattr("resources.lake.live._MERGED", 4)
    lake = lake_of(layout)
    for number, hour in enumerate([0] * 3 + [-1] * 5 + [0] * 9 + [1]):
        lake.add([lines(record(number % 3, number))], NOW + timedelta(hours=hour))
        while lake.merge() is not None:
            pass
        assert stored(layout) == Counter((n % 3, n) for n in range(number + 1))
        assert lake_of(layout).last() == lake.last()
    # the steps of one hour that follow one another are merged as ever
    assert len(list(lake.files())) < 11


def test_a_step_of_several_pieces_has_all_of_them(layout, monkeypatch, caplog):
    monkeypatch.setattr("resources.lake.stream_events._PIECE_BYTES", 1_000)
    assert len([*pieces([b"bad\n"] * 500)]) == 2  # few large pieces, however small the blocks are
    monkeypatch.setattr("resources.lake.live._GROUP_ROWS", 8)
    records = [record(number % 7, number, abstract="x" * (number * 97 % 3_000)) for number in range(30)]
    bad = b"".join(b"bad %d\n" % number if number else b"[1]\n" for number in range(500))
    step = lake_of(layout).add([*map(lines, records[:15]), *bad.splitlines(True), *map(lines, records[15:])], NOW)
    assert (step.row_count, step.reject_count) == (30, 500)
    assert stored(layout) == Counter((number % 7, number) for number in range(30))
    [beside] = (layout.lake / "live_changes_rejects").rglob("*.ndjson.gz")
    assert gzip.decompress(beside.read_bytes()) == bad
    assert "(first reason: A JSON object was expected, not a list.)" in caplog.text


def test_the_service_leaves_out_zeros_so_an_event_without_a_place_is_the_first_of_all(layout):
    in_first, at_first, nowhere = record(0, 5), record(4, 0), record(1, 1)  # zeros are left out
    del nowhere["event"]["partition"], nowhere["event"]["offset"]
    step = lake_of(layout).add([lines(in_first, at_first, nowhere, nowhere, in_first)], NOW)
    assert (step.row_count, step.duplicate_count, step.reset_count) == (3, 2, 1)
    assert stored(layout) == Counter([(0, 5), (4, 0), (0, 0)])
    # read again from behind the first: what is kept is recognized
    assert step.offsets == {0: 1, 4: 1}
    step = lake_of(layout).add([lines(in_first, record(0, 6))], NOW)
    assert (step.row_count, step.duplicate_count, step.offsets) == (1, 1, {0: 7, 4: 1})


def test_a_newest_file_that_cannot_be_read_is_named(layout):
    lake_of(layout).add([lines(record(1, 1))], NOW).path.write_bytes(b"PAR1")
    told = r"Nothing was changed\. Remove this file\. If this was the newest file, the stream then resumes after"
    with pytest.raises(LakeError, match=told):
        lake_of(layout).add([lines(record(1, 2))], NOW)


def test_small_files_become_large_ones_and_every_event_is_found_once(layout, monkeypatch):
    monkeypatch.setattr("resources.lake.parquet.sorting.GROUP_ROWS", 7)
    monkeypatch.setattr("resources.lake.live._MERGED", 4)
    lake = lake_of(layout)
    for number in range(18):
        lake.add([lines(*[record(number % 7, number)] * 2)], NOW)
        assert stored(layout) == Counter((n % 7, n) for n in range(number + 1))
        while (merged := lake.merge()) is not None:
            assert stored(layout) == Counter((n % 7, n) for n in range(number + 1))
            assert (lake_of(layout).last(), lake.last().path) == (lake.last(), merged)
            assert lake.last().row_count == lake.last().duplicate_count == pq.read_metadata(merged).num_rows
    # the first file only says where the stream begins; with it 19 steps, of which 16 are in one file
    names = [path.stem for path in lake.files()]
    assert names == ["000000000001-000000000016", *(f"{number:012d}" for number in range(17, 20))]
    large = pq.read_metadata(next(lake.files()))
    assert [large.row_group(number).num_rows for number in range(large.num_row_groups)] == [7, 7, 1]
    # those that were merged are there for whoever has found them before, for an hour
    assert len(list(lake.folder.rglob("*.parquet"))) == 19 + 4 + 1
    for path in lake.folder.rglob("*.parquet"):
        os.utime(path, (path.stat().st_mtime - 3_700,) * 2)
    # with a new hour those of the hour before become one, and those that were merged long ago are deleted, together
    step = lake.add([lines(record(1, 100))], NOW + timedelta(hours=1))
    assert (lake.merge().stem, step.number, step.offsets[1]) == ("000000000001-000000000019", 20, 101)
    assert lake.last() == lake_of(layout).last() == step
    assert len(list(lake.folder.rglob("*.parquet"))) == 1 + 3 + 1 + 1
    assert lake.merge() is None
    assert [path.stem for path in lake.files()] == ["000000000001-000000000019", "000000000020"]
    whole = Counter([*((n % 7, n) for n in range(18)), (1, 100)])
    assert stored(layout) == whole
    # killed before the large file was durable: those that it is made of are still there
    next(lake.files()).unlink()
    assert stored(layout) == whole


def test_files_that_were_merged_stay_while_a_backup_copies_them(layout):
    lake, there = lake_of(layout), []

    def next_hour(hour, seconds=3_700):
        for offset in range(8 * hour, 8 * hour + 8):
            lake.add([lines(record(0, offset))], NOW + timedelta(hours=hour))
        for path in lake.folder.rglob("*.parquet"):
            os.utime(path, (path.stat().st_mtime - seconds,) * 2)
        there[:] = lake.folder.rglob("*.parquet")
        while lake.merge() is not None:
            pass

    next_hour(0)
    with copying(layout.root, wait_seconds=0):
        next_hour(1)
        assert all(path.exists() for path in there)
    next_hour(2)
    assert not all(path.exists() for path in there)
    next_hour(3, seconds=0)
    assert all(path.exists() for path in there)
    assert stored(layout) == Counter((0, n) for n in range(32))


@pytest.mark.parametrize("name", ["live_changes/{}.parquet", "live_changes_rejects/{}.ndjson.gz"])
def test_a_step_that_cannot_be_written_is_kept_when_its_events_come_again(layout, name):
    lake = lake_of(layout)
    lake.begin(NOW, NOW)
    in_the_way = layout.lake / name.format("date=2026-11-01/hour=05/000000000002")
    in_the_way.mkdir(parents=True)
    with pytest.raises(LakeError, match=f"{in_the_way.name} could not be written to"):
        lake.add([lines(record(1, 1)) + b"bad\n"], NOW)
    in_the_way.rmdir()
    step = lake.add([lines(record(1, 1)) + b"bad\n"], NOW)
    assert (step.number, step.row_count, step.reset_count) == (2, 1, 0)


@pytest.mark.parametrize("end", [200, -100, None])
def test_a_damaged_file_is_not_merged_and_none_is_lost(layout, end):
    lake = lake_of(layout)
    for number in range(8):
        lake.add([lines(record(1, number))], NOW)
    [damaged] = [path for path in lake.files() if path.stem.endswith("03")]
    damaged.write_bytes(damaged.read_bytes().replace(b"Page", b"page", 1)[:end])
    with pytest.raises(LakeError, match=f"{damaged.name} cannot be read"):
        lake.merge()
    assert len(list(lake.files())) == 9
    assert not list(layout.root.rglob("*.unfinished"))
    assert lake.add([lines(record(1, 8))], NOW).number == 10


def test_files_of_before_a_column_was_declared_and_large_ones_are_left_as_they_are(layout, monkeypatch):
    lake = lake_of(layout)
    for number in range(8):
        lake.add([lines(record(1, number))], NOW)
    sizes = [path.stat().st_size for path in lake.files()]
    monkeypatch.setattr("resources.lake.live._MERGED_BYTES", sum(sizes[1:]) - 1)
    assert lake.merge() is None  # too large for one
    monkeypatch.undo()
    older = [*lake.files()][3]
    table = pq.read_table(older)
    pq.write_table(table.drop_columns(["abstract"]).replace_schema_metadata(pq.read_metadata(older).metadata), older)
    assert lake.merge() is None
    assert len(list(lake.files())) == 9
