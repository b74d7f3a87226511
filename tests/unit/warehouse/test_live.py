"""Events of the stream beside the published file: what analysts find is what the files of their hours would have brought."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from datetime import timedelta

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from resources.datasets.live import LIVE_CHANGES, files_of, path_of
from resources.tables import ARTICLE_CHANGES
from resources.warehouse import LakeFileError, NotPublishedError, Warehouse
from resources.warehouse.database.formulas import FORMULAS
from tests.builds import NO_BAR

MOMENTS = (30, 95, 200, 260, 290, 359)


def events(lake, seed):
    """Rows of six hours in which pages change, move, go, come back and are shown or hidden: by hour, project and namespace."""
    chance = random.Random(seed)
    hours = {(hour, "enwiki", namespace): [] for hour in range(6) for namespace in (0, 14)}
    for minute in range(360):
        page = chance.randint(1, 12)
        title = f"T{chance.choice([page, page, page, chance.randint(1, 12)])}"
        kind = chance.choice(["update", "update", "update", "delete", "visibility-change"])
        row = lake.change(page, title, minute, kind, abstract=chance.choice("abc"))
        hours[minute // 60, "enwiki", chance.choice([0, 0, 14])].append(row)
    return hours


def stream(lake, hours, first_step):
    """Write the rows of hours as a stream's files, some of several hours, each row marked with its place."""
    whole = [
        dict.fromkeys(ARTICLE_CHANGES.schema.names)
        | row
        | {"batch_hour": lake.hour(hour), "project_id": project, "namespace_id": namespace}
        for (hour, project, namespace), rows in sorted(hours.items())
        for row in rows
    ]
    for number in range(0, len(whole), 40):
        path = path_of(lake.data / "lake" / LIVE_CHANGES, lake.hour(6), first_step + number, first_step + number + 39)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(whole[number : number + 40], schema=ARTICLE_CHANGES.schema), path)


def load(mirror, hours):
    for number in sorted({hour for hour, *_ in hours}):
        files = [mirror.lake.file(number, rows, p, n) for (hour, p, n), rows in hours.items() if hour == number]
        mirror.warehouse.load_hour(mirror.lake.hour(number), files)
    mirror.warehouse.apply_changes()


def found(mirror):
    """All that analysts find of changes and pages."""
    moments = [mirror.lake.hour(0) + timedelta(minutes=minute) for minute in MOMENTS]
    queries = ["articles", "article_changes", "distinct_changes", "redirects", "article_history('enwiki', 'T3')"]
    queries += [f"articles_at(TIMESTAMPTZ '{moment}', inexact := true)" for moment in moments]
    with mirror.warehouse.connect_published() as connection:
        return {
            query: sorted(repr(row) for row in connection.sql(f"FROM {query}").to_arrow_table().to_pylist())
            for query in queries
        }


def begun(make, seed):
    """A mirror of three hours that has kept a stream from the third on, and all its hours."""
    mirror = make()
    hours = events(mirror.lake, seed)
    load(mirror, {key: rows for key, rows in hours.items() if key[0] < 3})
    stream(mirror.lake, {key: rows for key, rows in hours.items() if key[0] >= 2}, 1)
    return mirror, hours


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_provisional_rows_are_those_that_the_files_of_their_hours_bring(make, state, seed):
    mirror, hours = begun(make, seed)
    before = state(mirror.warehouse)
    mirror.warehouse.publish()
    wanted = make()
    load(wanted, hours)
    wanted.warehouse.publish()
    whole = found(wanted)
    assert found(mirror) == whole
    assert state(mirror.warehouse) == before
    # a file takes the place of its own rows, while those of the others stay
    load(mirror, {key: rows for key, rows in hours.items() if key[0] in (3, 5)})
    assert mirror.warehouse.publish_live() is None
    mirror.warehouse.publish()
    assert found(mirror) == whole
    written = mirror.warehouse.publish_live()
    assert written.event_count == sum(len(rows) for key, rows in hours.items() if key[0] == 4)
    load(mirror, hours)
    mirror.warehouse.publish()
    assert mirror.warehouse.publish_live().event_count == 0
    assert found(mirror) == whole
    assert state(mirror.warehouse) == state(wanted.warehouse)


def test_titles_that_share_a_key_and_rows_that_are_newer_than_the_stream(make, monkeypatch):
    monkeypatch.setitem(FORMULAS, "title_key", "CAST(length(title) AS UBIGINT)")
    mirror, wanted = make(), make()
    change = mirror.lake.change
    # the file of an hour may go on into the next one
    settled = [change(n, f"T{n}", minute) for n, minute in enumerate((5, 100, 5, 100, 5, 5, 5), 1)]
    settled.append(change(10, "A title of another key", 100))
    events = [change(1, "T1", 70), change(2, "T2", 80), change(8, "T3", 75), change(9, "T4", 90), change(5, "T0", 62)]
    events.append(change(10, "Tx", 70))
    hours = {(0, "enwiki", 0): settled, (1, "enwiki", 0): [*events, change(6, "T6", 65, "delete"), change(8, "T9", 85)]}
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 0})
    stream(mirror.lake, hours, 1)
    mirror.warehouse.publish()
    load(wanted, hours)
    wanted.warehouse.publish()
    assert found(mirror) == found(wanted)
    left = "SELECT article_id, name FROM articles ORDER BY ALL"
    assert mirror.warehouse.sql(left).rows == [
        (1, "T1"),
        (2, "T2"),
        (4, "T4"),
        (5, "T0"),
        (7, "T7"),
        (8, "T9"),
        (10, "A title of another key"),
    ]


def test_events_that_come_twice_or_name_none_count_as_in_the_files_of_their_hours(make):
    mirror, wanted = make(), make()
    change = mirror.lake.change
    nameless = [
        change(page, f"T{page}", 61 + page % 3, event_id=None, abstract=text) for page in (1, 2, 3) for text in "ab"
    ]
    named = [change(page, f"T{page}", 61, abstract=text, version_id=7) for page in (4, 5, 6) for text in "ab"]
    # between them, so that the second of each is in another file
    others = [change(page, f"T{page}", 60) for page in range(10, 60)]
    hours = {
        (0, "enwiki", 0): [change(1, "T1", 5)],
        (1, "enwiki", 0): [
            *nameless,
            *named,
            *others,
            *nameless[:3],
            *named,
            change(4, "T4", 62),
            change(5, "T 5", 61),
        ],
        (1, "enwiki", 14): [*named[:2], *nameless],
    }
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 0})
    stream(mirror.lake, {key: rows for key, rows in hours.items() if key[0] == 1}, 1)
    mirror.warehouse.publish()
    load(wanted, hours)
    wanted.warehouse.publish()
    assert found(mirror) == found(wanted)
    # of each nameless event all that differ, of the others one for each title
    assert mirror.warehouse.publish_live().event_count == 6 + 3 + 50 + 1 + 1 + 1 + 6


def test_an_open_reader_sees_what_has_come_since(make):
    mirror, hours = begun(make, 4)
    mirror.warehouse.publish()
    with mirror.warehouse.connect_published() as reader:
        count = "SELECT count(*) FROM article_changes WHERE event_partition IS NULL AND name = 'New'"
        assert reader.sql(count).fetchall() == [(0,)]
        new = {
            (5, "enwiki", 0): [mirror.lake.change(77, "New", 359)],
            (6, "frwiki", 0): [mirror.lake.change(8, "Ah", 361)],
        }
        stream(mirror.lake, new, 1_000)
        written = mirror.warehouse.publish_live()
        assert (written.event_count, written.page_count) == (
            sum(len(r) for k, r in hours.items() if k[0] > 2) + 2,
            written.page_count,
        )
        assert reader.sql(count).fetchall() == [(1,)]
        assert reader.sql(
            "SELECT article_id, source_at = '2026-11-01 05:00:00+00' FROM articles WHERE name = 'New'"
        ).fetchall() == [(77, True)]
        assert reader.sql("SELECT name FROM articles WHERE project_id = 'frwiki'").fetchall() == [("Ah",)]
    # nothing else is written than one file
    assert len(list(written.path.parent.iterdir())) == 2


def test_only_what_is_published_can_have_provisional_rows(make):
    mirror = make()
    load(mirror, {(0, "enwiki", 0): [mirror.lake.change(1, "A", 1)]})
    with pytest.raises(NotPublishedError):
        mirror.warehouse.publish_live()
    mirror.warehouse.publish()
    assert mirror.warehouse.publish_live() is None
    stream(mirror.lake, {(1, "enwiki", 0): [mirror.lake.change(1, "A", 61, abstract="new")]}, 1)
    # the published file does not look for events: there were none
    assert mirror.warehouse.publish_live().page_count == 1
    assert mirror.warehouse.sql("SELECT abstract FROM articles").rows == [("new",)]
    assert not mirror.warehouse.publish().changed


def test_events_that_a_slow_clock_laid_into_the_hour_before_are_seen(make):
    mirror = make()
    load(mirror, {(0, "enwiki", 0): [mirror.lake.change(1, "A", 1)]})
    stream(mirror.lake, {(1, "enwiki", 0): [mirror.lake.change(1, "A", 60, abstract="new")]}, 1)
    [path] = mirror.data.glob(f"lake/{LIVE_CHANGES}/*/*/*.parquet")
    slow = path_of(mirror.data / "lake" / LIVE_CHANGES, mirror.lake.hour(0), 1, 39)
    slow.parent.mkdir(parents=True)
    path.rename(slow.with_name(path.name))
    # two days later that hour is the oldest of which there may be a file
    mirror.warehouse._clock.now = mirror.lake.hour(48)
    mirror.warehouse.publish()
    assert mirror.warehouse.sql("SELECT abstract FROM articles").rows == [("new",)]


def test_what_nobody_reads_any_more_goes_and_what_a_kill_left(make):
    mirror, _ = begun(make, 5)
    mirror.warehouse.publish()
    [folder] = (mirror.data / "warehouse" / "live").iterdir()
    first, left = folder / "000000000001.parquet", folder / "000000000002.123.tmp"
    other = folder.with_name("7-gone")
    left.touch()
    other.mkdir()
    age(3_000, first, left)
    age(90_000, other)
    written = mirror.warehouse.publish_live()
    assert set((mirror.data / "warehouse" / "live").rglob("*")) == {folder, written.path}
    # a publication keeps what is published until it has taken its place, and a reader who has it open may go on for a day
    age(90_000, folder)
    mirror.warehouse.publish({"service": "another"})
    assert written.path.exists()


@pytest.mark.parametrize(
    "name", ["../victim", "{data}/victim", "warehouse/live/../../victim", "warehouse/live/link", ""]
)
def test_a_published_file_that_names_another_folder_changes_nothing_there(make, name):
    mirror, _ = begun(make, 6)
    mirror.warehouse.publish()
    victim = mirror.data / "victim"
    (mirror.data.parent / "victim").mkdir(exist_ok=True)
    victim.mkdir()
    (mirror.data / "warehouse/live/link").symlink_to(victim)
    old = [folder / "old" for folder in (victim, mirror.data.parent / "victim")]
    for path in old:
        path.write_bytes(b"precious")
        age(90_000, path)
    published = mirror.warehouse.published_path
    published.chmod(0o644)
    with duckdb.connect(published) as connection:
        connection.execute("UPDATE about SET value = ? WHERE name = 'live_folder'", [name.format(data=mirror.data)])
    # the first may publish again
    mirror.warehouse.publish_live()
    assert mirror.warehouse.publish_live() is not None
    assert [[*path.parent.iterdir()] for path in old] == [[path] for path in old]


def test_a_mirror_whose_stream_has_ended_is_as_one_without(make):
    mirror, hours = begun(make, 6)
    mirror.warehouse.publish()
    assert mirror.warehouse.sql("SELECT count(*) FROM about WHERE name = 'live_folder'").rows == [(1,)]
    mirror.warehouse._clock.now += timedelta(hours=60)
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 3})
    assert mirror.warehouse.publish().changed
    assert mirror.warehouse.sql("SELECT count(*) FROM about WHERE name = 'live_folder'").rows == [(0,)]
    assert mirror.warehouse.sql(
        "SELECT table_type FROM information_schema.tables WHERE table_name = 'articles'"
    ).rows == [("BASE TABLE",)]
    assert mirror.warehouse.publish_live() is None


def test_files_of_before_a_column_was_declared(make):
    mirror, _ = begun(make, 9)
    mirror.warehouse.publish()
    [path] = mirror.data.glob(f"lake/{LIVE_CHANGES}/*/*/*-000000000120.parquet")
    older = pq.read_table(path)
    pq.write_table(older.drop_columns(["abstract"]), path)
    assert mirror.warehouse.publish_live() is not None
    count = "SELECT count(*) FILTER (abstract IS NULL), count(*) FROM article_changes WHERE batch_hour >= '2026-11-01 03:00:00+00'"
    [(without, rows)] = mirror.warehouse.sql(count).rows
    assert 0 < without == sum(hour.hour >= 3 for hour in older["batch_hour"].to_pylist()) < rows


def test_a_kill_while_rows_are_written_and_a_publication_that_fails_leave_what_is_published(make, monkeypatch):
    mirror, hours = begun(make, 10)
    mirror.warehouse.publish()
    wanted = found(mirror)
    [folder] = (mirror.data / "warehouse" / "live").iterdir()
    (folder / "000000000002.123.tmp").touch()
    age(3_000, *folder.iterdir())
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 3})
    assert mirror.warehouse.publish_live() is None
    assert found(mirror) == wanted
    with monkeypatch.context() as patch:
        patch.setattr("resources.warehouse.publish.publisher.make_views", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mirror.warehouse.publish()
    assert found(mirror) == wanted


def test_a_folder_that_somebody_removed_is_made_again(make):
    mirror, _ = begun(make, 11)
    mirror.warehouse.publish()
    wanted = found(mirror)
    shutil.rmtree(mirror.data / "warehouse" / "live")
    assert mirror.warehouse.publish().changed
    assert found(mirror) == wanted
    assert not mirror.warehouse.publish().changed
    shutil.rmtree(mirror.data / "warehouse" / "live")
    assert mirror.warehouse.publish_live().event_count > 0
    assert found(mirror) == wanted
    # of the stream's files themselves nothing is left: the mirror is as one without a stream
    shutil.rmtree(mirror.data / "lake" / LIVE_CHANGES)
    assert mirror.warehouse.publish().changed
    assert mirror.warehouse.sql("SELECT count(*) FROM article_bodies").rows[0][0] > 0


def test_a_damaged_file_of_the_stream_hinders_no_publication(make, caplog):
    mirror, hours = begun(make, 12)
    mirror.warehouse.publish()
    [path] = mirror.data.glob(f"lake/{LIVE_CHANGES}/*/*/*-000000000120.parquet")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(LakeFileError, match="A file of the stream cannot be read"):
        mirror.warehouse.publish_live()
    load(mirror, {key: rows for key, rows in hours.items() if key[0] == 3})
    assert mirror.warehouse.publish().changed
    assert (
        f"{path.name}.damaged now. Its events are missing until the stream or the files of their hours bring them"
        in caplog.text
    )
    assert not path.exists()
    # those of the other files are still shown
    hours_of = [pq.read_table(one.path, columns=["batch_hour"], partitioning=None) for one in files_of(path.parents[2])]
    open_ = pc.sum(pc.greater_equal(pa.concat_tables(hours_of)["batch_hour"], mirror.lake.hour(4))).as_py()
    assert open_ > 0
    assert mirror.warehouse.sql(
        "SELECT count(*) FROM article_changes WHERE batch_hour >= '2026-11-01 04:00:00+00'"
    ).rows == [(open_,)]
    assert mirror.warehouse.publish_live().event_count > 0


@pytest.mark.parametrize("is_taken_along", [True, False])
def test_a_folder_that_was_moved(make, tmp_path, is_taken_along):
    mirror, hours = begun(make, 8)
    mirror.warehouse.publish()
    wanted = found(mirror)
    if not is_taken_along:
        shutil.rmtree(mirror.data / "warehouse")
        plain = make()
        load(plain, {key: rows for key, rows in hours.items() if key[0] < 3})
        plain.warehouse.publish()
        wanted = found(plain)
    moved = mirror.data.rename(tmp_path / "moved")
    mirror.warehouse = Warehouse(moved, clock=mirror.warehouse._clock)
    mirror.warehouse.relocate()
    assert found(mirror) == wanted


def age(seconds, *paths):
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2)


def test_another_duckdb_reads_provisional_rows(make):
    if not (folder := os.environ.get("TEST_OTHER_DUCKDB")):
        pytest.skip("TEST_OTHER_DUCKDB names no folder with another DuckDB, as it does in `make test`")
    mirror, _ = begun(make, 7)
    mirror.warehouse.publish()
    query = "SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM article_changes), (SELECT count(*) FROM article_bodies)"
    asked = f"import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).execute({query!r}).fetchall())"
    command = [sys.executable, "-c", NO_BAR + asked, str(mirror.warehouse.published_path)]
    told = subprocess.run(command, env={"PYTHONPATH": folder}, capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.strip() == str([tuple(row) for row in mirror.warehouse.sql(query).rows])


def test_damaged_files_of_the_stream_are_set_aside_by_the_next_publication(make, caplog):
    """The views find the stream's files by a pattern, so each one that cannot be read would fail every question for a body."""
    mirror, _ = begun(make, 1)
    mirror.warehouse.publish()
    files = sorted((mirror.data / "lake" / LIVE_CHANGES).rglob("*.parquet"))
    files[1].write_bytes(b"")
    os.mkfifo(waits := path_of(mirror.data / "lake" / LIVE_CHANGES, mirror.lake.hour(6), 9001, 9001))
    load(mirror, {(6, "enwiki", 0): [mirror.lake.change(1, "T1", 361, wikitext="text")]})
    mirror.warehouse.publish()
    aside = {path.name for path in files[1].parent.iterdir()} - {path.name for path in files}
    assert aside == {f"{files[1].name}.damaged", f"{waits.name}.damaged"}
    assert str(files[1]) in caplog.text
    assert "bring them again" in caplog.text
    assert mirror.warehouse.sql("SELECT wikitext FROM article_bodies WHERE wikitext IS NOT NULL").rows == [("text",)]
    mirror.warehouse.publish_live()
