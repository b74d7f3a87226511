"""Events of the stream in the views: analysts find what the files of their hours would have brought."""

import errno
import json
import os
import random
import shutil
import time
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from resources import datasets
from resources.datasets.live import LIVE_CHANGES, files_of, name_of, path_of
from resources.tables import ARTICLE_CHANGES, HourState
from resources.warehouse import HourStatus, Warehouse
from resources.warehouse.database.connect import answer
from resources.warehouse.database.sql import FORMULAS
from resources.warehouse.views import lake as views


def events(lake, seed):
    """Changes of every kind by hour, project and namespace; some come again in either, some are of the next hour."""
    chance = random.Random(seed)
    hours = {(hour, "enwiki", namespace): [] for hour in range(4) for namespace in (0, 14)}
    for minute in range(240):
        page = chance.randint(1, 30)
        title = f"T{chance.choice([page, chance.randint(1, 30)])}"
        kind = chance.choice(["update", "update", "update", "delete", "visibility-change"])
        late = minute + chance.choice([0, 0, 150])
        more = {"event_id": f"e{minute}", "version_id": late, "abstract": chance.choice("abc")}
        row = lake.change(page, title, late, kind, **more)
        hours[minute // 60, "enwiki", chance.choice([0, 0, 14])].append(row)
        if minute % 7 == 0 and kind == "update":  # as where it was moved
            hours[minute // 60, "enwiki", 0].append(row | {"name": f"Old {title}", "change_type": "delete"})
        if chance.random() < 0.2:
            again = row | {"version_id": chance.choice([5, late])}
            hours[minute // 60, "enwiki", chance.choice([0, 0, 14])].append(again)
    # a page whose title is another's by now, and an older change of it that comes late
    hours[0, "enwiki", 0] += [lake.change(42, "T_42", 10), lake.change(43, "T_42", 20)]
    hours[2, "enwiki", 0].append(lake.change(42, "T_44", 9, abstract="late"))
    # of one moment, of which the keys decide
    hours[2, "enwiki", 0] += [lake.change(41, "T_41", 200, event_id=f"e{n}", abstract=str(n)) for n in range(260, 268)]
    return hours


def stream(lake, hours, first_step):
    """Write the rows of hours as a stream's files, some of several hours, each row marked with its place."""
    whole = []
    for (hour, project, namespace), rows in sorted(hours.items()):
        own = {"batch_hour": lake.hour(hour), "project_id": project, "namespace_id": namespace}
        whole += [dict.fromkeys(ARTICLE_CHANGES.schema.names) | row | own for row in rows]
    for number in range(0, len(whole), 40):
        path = path_of(lake.data / "lake" / LIVE_CHANGES, lake.hour(6), first_step + number, first_step + number + 39)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(whole[number : number + 40], schema=ARTICLE_CHANGES.schema), path)


def load(mirror, hours):
    for number in sorted({hour for hour, *_ in hours}):
        files = [mirror.lake.file(number, rows, p, n) for (hour, p, n), rows in hours.items() if hour == number]
        mirror.warehouse.load_hour(mirror.lake.hour(number), files)
    mirror.warehouse.apply_changes()


def rows(connection, query):
    return sorted(repr(row) for row in connection.sql(query).to_arrow_table().to_pylist())


def live(mirror):
    """All that analysts find of changes and pages with the stream."""
    with mirror.warehouse._connector.published() as connection:
        return rows(connection, "FROM changes_live"), rows(connection, "FROM articles_live")


def settled(mirror):
    """All that they find without it."""
    with mirror.warehouse._connector.published() as connection:
        return rows(connection, "FROM article_changes"), rows(connection, "FROM articles")


def first_hours(made, seed):
    """Loads the first two hours; returns all of them."""
    hours = events(made.lake, seed)
    load(made, {key: rows for key, rows in hours.items() if key[0] < 2})
    return hours


def begun(make, again, seed=4):
    """A mirror of two hours that has kept a stream from the second on, all its hours, and what is found without it."""
    mirror = make()
    hours = again(mirror, first_hours, seed)
    mirror.warehouse.publish()
    before = settled(mirror)
    stream(mirror.lake, {key: rows for key, rows in hours.items() if key[0] >= 1}, 1)
    return mirror, hours, before


@pytest.mark.parametrize("seed", [144, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))])
def test_live_rows_are_those_that_the_files_of_their_hours_bring(make, again, seed, monkeypatch):
    # many titles share a key
    monkeypatch.setitem(FORMULAS, "title_key", "CAST(length(title) AS UBIGINT)")
    mirror, hours, before = begun(make, again, seed)
    wanted = make()
    load(wanted, hours)
    wanted.warehouse.publish()
    whole = settled(wanted)
    assert live(wanted) == live(mirror) == whole
    # settled hours alone are in the other views
    assert settled(mirror) == before
    # a file takes the place of its own rows, in any order, while those of the others stay
    for loaded in ((3,), range(4)):
        load(mirror, {key: rows for key, rows in hours.items() if key[0] in loaded})
        mirror.warehouse.publish()
        assert live(mirror) == whole
    assert (settled(mirror), mirror.warehouse.sql("SELECT count(*) FROM live_changes").rows) == (whole, [(0,)])


def test_an_open_reader_sees_what_has_come_since(make):
    mirror = make()
    load(mirror, {(0, "enwiki", 0): [mirror.lake.change(1, "A", 1)]})
    # nothing was ever streamed
    mirror.warehouse.publish()
    with mirror.warehouse.connect_published() as reader:
        assert live(mirror) == settled(mirror)
        assert reader.sql("SELECT count(*) FROM stream_state").fetchall() == [(0,)]
        change = mirror.lake.change
        first = [change(1, "A", 61, abstract="new", wikitext="text"), change(2, "B", 62)]
        new = {(1, "enwiki", 0): first, (2, "enwiki", 0): [change(2, "B", 125, "delete")]}
        new[3, "frwiki", 0] = [change(8, "Ah", 181)]
        stream(mirror.lake, new, 1)
        found = answer(reader, "SELECT name, abstract, source_at FROM articles_live ORDER BY ALL")
        assert found == [("A", "new", mirror.lake.hour(1)), ("Ah", None, mirror.lake.hour(3))]
        assert reader.sql("SELECT wikitext FROM live_changes WHERE name = 'A'").fetchall() == [("text",)]
        assert reader.sql("SELECT count(*) FROM articles").fetchall() == [(1,)]
    assert not mirror.warehouse.publish().changed


def test_a_merged_file_counts_instead_of_those_in_it_once_every_query_finds_it(make, again):
    mirror, *_ = begun(make, again)
    whole, files = live(mirror), files_of(mirror.data / "lake" / LIVE_CHANGES)
    merged = files[0].path.with_name(name_of(files[0].first, files[-1].last))
    pq.write_table(pa.concat_tables([pq.read_table(file.path, partitioning=None) for file in files]), merged)
    counting = "SELECT parse_filename(filename) FROM internal.lake_live_files ORDER BY ALL"
    os.utime(merged, (time.time() - 40,) * 2)
    with mirror.warehouse.connect_published() as reader:
        assert (reader.sql(counting).fetchall(), live(mirror)) == ([(file.path.name,) for file in files], whole)
        os.utime(merged, (time.time() - 61,) * 2)
        assert reader.sql(counting).fetchall() == [(merged.name,)]
        for file in files:
            file.path.write_bytes(b"not opened any more, so a query does not fail when it is deleted")
        assert live(mirror) == whole
        for file in files:
            file.path.unlink()
        assert live(mirror) == whole


def test_events_that_a_slow_clock_laid_into_the_hour_before_are_seen(make):
    mirror = make()
    load(mirror, {(0, "enwiki", 0): [mirror.lake.change(1, "A", 1)]})
    hours = [HourStatus(mirror.lake.hour(n), "enwiki", 0, HourState.EMPTY) for n in (*range(1, 49), 70)]
    mirror.warehouse.record_statuses(hours[:-1])
    stream(mirror.lake, {(49, "enwiki", 0): [mirror.lake.change(1, "A", 49 * 60, abstract="new")]}, 1)
    [path] = mirror.data.glob(f"lake/{LIVE_CHANGES}/*/*/*.parquet")
    slow = path_of(mirror.data / "lake" / LIVE_CHANGES, mirror.lake.hour(48), 1, 39)
    slow.parent.mkdir(parents=True)
    path.rename(slow.with_name(path.name))
    mirror.warehouse.publish()
    assert mirror.warehouse.sql("SELECT abstract FROM articles_live").rows == [("new",)]
    # files of hours before are not opened, unless the service may still have one of them for another namespace
    lacking = HourStatus(mirror.lake.hour(5), "enwiki", 14, HourState.MISSING)
    for status, dataset, first in ((hours[-1], datasets.ENTITY_CHANGES, 49), (lacking, datasets.ARTICLE_CHANGES, 0)):
        mirror.warehouse.record_statuses([status], dataset)
        mirror.warehouse.publish()
        assert mirror.warehouse.sql("FROM internal.live_window").rows == [(mirror.lake.hour(first),)]


def test_a_damaged_file_of_the_stream_hinders_no_publication(make, again, caplog, monkeypatch):
    """The views find the stream's files by a pattern, so each one that cannot be read would fail them."""
    mirror, hours, _ = begun(make, again)
    files = sorted((folder := mirror.data / "lake" / LIVE_CHANGES).rglob("*.parquet"))
    with monkeypatch.context() as patch:  # a process with too many open files damages none
        patch.setattr(views, "read_footer", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        assert not views.prepare_folder(folder)
    assert sorted(folder.rglob("*.parquet")) == files
    lost = [one for one in files if one.name.endswith("120.parquet")]
    lost[0].write_bytes(lost[0].read_bytes()[:-50])
    os.mkfifo(waits := path_of(mirror.data / "lake" / LIVE_CHANGES, mirror.lake.hour(6), 9001, 9001))
    (mirror.data / "lake" / LIVE_CHANGES / "_empty.parquet").write_bytes(b"")
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 2})
    assert mirror.warehouse.publish().changed
    names = {path.name for path in lost[0].parent.iterdir()}
    assert {f"{lost[0].name}.damaged", f"{waits.name}.damaged"} < names
    told = f"{lost[0].name}.damaged. Its events are missing until the stream or the hourly files deliver them again"
    assert told in caplog.text
    assert mirror.warehouse.sql("SELECT count(*) > 0 FROM live_changes").rows == [(True,)]
    assert mirror.warehouse.sql("SELECT count(*) > 0 FROM articles_live").rows == [(True,)]


def test_files_of_before_a_column_was_declared_and_a_folder_that_was_moved(make, again, tmp_path):
    mirror, *_ = begun(make, again)
    [path] = mirror.data.glob(f"lake/{LIVE_CHANGES}/*/*/*-000000000120.parquet")
    query = "SELECT count(*) FROM internal.live_events WHERE parse_filename(filename) = ?"
    [(count_in_file,)] = mirror.warehouse.sql(query, [path.name]).rows
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["abstract"]), path)
    empty = mirror.data / "lake" / LIVE_CHANGES / "_empty.parquet"
    pq.write_table(pq.read_table(empty).drop_columns(["abstract"]), empty)
    mirror.warehouse.publish({"another": "fact"})
    assert pq.read_schema(empty).equals(ARTICLE_CHANGES.schema)
    count = "SELECT count(*) FILTER (abstract IS NULL), count(*) FROM live_changes"
    [(without, rows)] = mirror.warehouse.sql(count).rows
    assert 0 < without == count_in_file < rows
    wanted, moved = live(mirror), mirror.data.rename(tmp_path / "moved")
    mirror.warehouse = Warehouse(moved, clock=mirror.warehouse._clock)
    mirror.warehouse.relocate()
    assert live(mirror) == wanted
    # without the stream's files it is a mirror without a stream
    shutil.rmtree(moved / "lake" / LIVE_CHANGES)
    mirror.warehouse.publish({"a": "fact"})
    assert live(mirror) == settled(mirror)


def test_the_work_grows_with_the_events_and_no_column_is_read_that_is_not_asked_for(make, tmp_path):
    """A title with thousands of events is no harder than any other: DuckDB counts the rows between operators."""
    worked = []
    for count in (100, 1_000):
        mirror = make()
        load(mirror, {(0, "enwiki", 0): [mirror.lake.change(page, f"T{page}", 1) for page in range(150)]})
        disputed = [mirror.lake.change(1, "T1", 60 + number / count, version_id=number) for number in range(count)]
        stream(mirror.lake, {(1, "enwiki", 0): [row | {"event_id": f"e{row['version_id']}"} for row in disputed]}, 1)
        mirror.warehouse.publish()
        told = tmp_path / f"{count}.json"
        with mirror.warehouse.connect_published() as reader:
            reader.execute(f"PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '{told}'")
            assert reader.execute("SELECT count(*) FROM articles_live").fetchall() == [(150,)]
        profile = told.read_text()
        worked.append(json.loads(profile)["query"]["total_intermediate_rows"])
        assert '"abstract"' not in profile
    assert worked[1] < 10 * worked[0]
