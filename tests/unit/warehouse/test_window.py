"""The window: changes of older hours are read from compacted files, which nobody who asks notices."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
from datetime import timedelta
from unittest.mock import Mock

import duckdb
import pytest

from assets.steps.compaction import compact_lake
from resources.engine import Engine
from resources.lake import Layout
from resources.warehouse import LakeFileError, Warehouse
from resources.warehouse.read.lake_parts import cold_files
from tests.builds import NO_BAR, ask, close_all, shown
from tests.unit.warehouse.conftest import START, compact, lake_files, mirror_in
from tests.unit.warehouse.test_loading import zeros

PROJECTS = ("dewiki", "enwiki", "frwiki")
ASKED = (
    *("article_changes", "articles", "article_bodies", "distinct_changes", "activity", "most_edited", "project_state"),
    "articles_at('2026-11-01 03:00:00+00', inexact := true)",
    "articles_at('2026-11-01 07:30:00+00', project := 'enwiki', inexact := true)",
    *("article_history('enwiki', 'Page_3')", "article_history('dewiki', 4)"),
    "changes_between('2026-11-01 02:00:00+00', '2026-11-01 06:20:00+00')",
)


def files_of(lake, hour, edition=0, projects=PROJECTS, namespaces=(0,)):
    """An hour's files: repeated and unnamed events, deletes, moves, pages that change their namespace."""
    chance, files = random.Random(f"{hour} {edition}"), []
    for number, project in enumerate(projects):
        for namespace in namespaces:
            rows = [
                lake.change(
                    10 * number + page,
                    f"{'' if chance.random() < 0.9 else 'Other '}Page_{page}",
                    60 * hour + chance.randint(0, 70),
                    chance.choice(["update", "update", "update", "delete", "visibility-change"]),
                    event_id=None if chance.random() < 0.3 else f"{hour}-{page}-{chance.randint(0, 1)}",
                    version_id=chance.randint(1, 20),
                    editor_name=f"Editor {edition}",
                    categories=[{"name": "A", "url": None}, {"name": "B", "url": "u"}],
                    wikitext=f"{page} {hour} {edition}",
                )
                for page in range(8)
                if chance.random() < 0.6
            ]
            rows += [dict(row) for row in rows[:2]]
            files.append(lake.file(hour, rows, project, namespace))
    return files


def load(made, hours, edition=0, *, applied=True, **more):
    for hour in hours:
        made.warehouse.load_hour(made.lake.hour(hour), files_of(made.lake, hour, edition, **more))
    if applied:
        made.warehouse.apply_changes()


def snapshot_of(lake, minute, edition=0):
    rows = [lake.change(10 + page, f"Page {page}", minute + page, version_id=30, wikitext="s") for page in range(6)]
    return lake.snapshot([rows], tag=str(edition))


def move(made, hour):
    """Moves the window to an hour as far as it goes, a few hours at a time; returns the rows that left."""
    count = 0
    for _ in range(100):
        if (step := made.warehouse.move_window(made.lake.hour(hour))) is None:
            return count
        count += step.row_count
    raise AssertionError("the window does not come to rest")


def content(warehouse, asked=ASKED[:2]):
    """What analysts would see."""
    found = {}
    with shown(warehouse) as connection:
        for what in asked:
            with contextlib.suppress(duckdb.InvalidInputException):  # a project of which nothing is left
                found[what] = connection.sql(f"SELECT * FROM {what} ORDER BY ALL").to_arrow_table()
    return found


def first_hours(made, count):
    """Loads them; returns what analysts see."""
    load(made, range(count))
    return content(made.warehouse)


def compacted_hours(made, count):
    before = first_hours(made, count)
    compact(made, 3)
    return before


def native_hours(made):
    hours = ask(made.warehouse, "SELECT DISTINCT batch_hour FROM article_changes ORDER BY 1")
    return [(hour - made.lake.hour(0)) // timedelta(hours=1) for (hour,) in hours]


def test_hours_that_leave_are_read_from_the_lake_in_all_columns_and_types(mirror):
    load(mirror, range(3), namespaces=(0, 10))
    before = content(mirror.warehouse, ASKED)
    compact(mirror, 3)
    plan = mirror.warehouse.movable_changes(mirror.lake.hour(2))
    assert (plan.first_hour, plan.end_hour) == (mirror.lake.hour(0), mirror.lake.hour(2))
    mirror.warehouse.publish()
    hours = before["article_changes"]["batch_hour"].to_pylist()
    assert move(mirror, 2) == plan.row_count == sum(hour < mirror.lake.hour(2) for hour in hours)
    assert native_hours(mirror) == [2]
    assert (mirror.warehouse.published_window(), mirror.warehouse.publish().changed) == (None, True), "only with it"
    with mirror.warehouse._connector.build("look") as connection:
        assert cold_files(connection, PROJECTS[1:2]) == cold_files(connection) != []
        assert cold_files(connection, ["a", "z"]) == []
    assert content(mirror.warehouse, ASKED) == before
    assert mirror.warehouse.movable_changes(mirror.lake.hour(2)) is None
    # a compaction of hours on both sides takes nothing from the newer ones
    for edition in (1, 0):
        load(mirror, [0], edition, namespaces=(0, 10))
    assert [one.merge.span for one in compact(mirror)] == ["day"]
    assert (native_hours(mirror), content(mirror.warehouse, ASKED)) == ([2], before)


@pytest.mark.parametrize(
    ("seed", "rounds"), [(16213, 2), *(pytest.param(seed, 3, marks=pytest.mark.soak) for seed in range(1, 40))]
)
def test_whatever_happens_to_older_hours_all_is_as_in_a_mirror_without_a_window(make, state, seed, rounds):
    chance = random.Random(seed)
    windowed, plain = make(), make()
    for _ in range(rounds):
        for _ in range(chance.randint(1, 3)):
            hour, edition = chance.randint(0, 9), chance.randint(0, 2)
            namespaces, projects = chance.choice([(0,), (10,), (0, 10)]), chance.choice([PROJECTS, PROJECTS[1:2]])
            more = {"namespaces": namespaces, "projects": projects, "applied": chance.random() < 0.8}
            for made in (windowed, plain):
                load(made, [hour], edition, **more)
        if chance.random() < 0.3:
            dropped = chance.choice(PROJECTS)
            for made in (windowed, plain):
                made.warehouse.drop_project(dropped)
        if chance.random() < 0.3:
            minute, edition = 60 * chance.randint(0, 9), chance.randint(0, 1)
            for made in (windowed, plain):
                made.warehouse.load_snapshot(snapshot_of(made.lake, minute, edition))
                made.warehouse.apply_changes()
        compact(windowed, chance.choice([0, 0.1, 1, 30]))
        if chance.random() < 0.8:
            move(windowed, chance.randint(0, 10))
    for made in (windowed, plain):
        made.warehouse.apply_changes()
    compact(windowed, chance.choice([1, 30]))
    move(windowed, 8)
    assert content(windowed.warehouse, ASKED) == content(plain.warehouse, ASKED)
    assert state(windowed.warehouse) == state(plain.warehouse)
    windowed.warehouse.rebuild_articles()
    assert (state(windowed.warehouse), audits(windowed)) == (state(plain.warehouse), audits(plain))
    # some seeds leave nothing before the window, or a single file, which is not compacted by itself
    older = "SELECT count(*) FROM loads WHERE batch_hour < ? AND compaction_id IS NOT NULL"
    [(compacted,)] = ask(windowed.warehouse, older, [windowed.lake.hour(8)])
    assert bool(lake_files(windowed.warehouse, "lake_article_changes")) == bool(compacted)
    assert compacted or rounds > 2


def audits(made):
    return made.warehouse.audit([made.lake.hour(hour) for hour in range(10)])


def test_hours_leave_in_bounded_steps_and_one_that_is_loaded_again_is_held_until_all_have_taken_it_in(
    mirror, again, monkeypatch
):
    again(mirror, compacted_hours, 3)
    plan = mirror.warehouse.movable_changes(mirror.lake.hour(3))
    with monkeypatch.context() as patch:
        # a step removes so many rows or a single hour
        first = mirror.warehouse.movable_changes(mirror.lake.hour(1)).row_count - 1  # it leaves nevertheless, alone
        patch.setattr("resources.warehouse.compaction.window._ROWS", first)
        steps = [mirror.warehouse.move_window(mirror.lake.hour(3)) for _ in range(4)]
    assert steps.pop() is None
    assert [step.first_hour for step in steps] == [mirror.lake.hour(n) for n in range(3)]
    assert (sum(step.row_count for step in steps), native_hours(mirror)) == (plan.row_count, [])
    load(mirror, [1], 1, projects=PROJECTS[1:2])
    load(mirror, [2], 1, applied=False)
    assert native_hours(mirror) == [1, 2]
    compact(mirror, 30)
    assert native_hours(mirror) == [2]
    mirror.warehouse.apply_changes()
    before = content(mirror.warehouse)
    compact(mirror, 0)
    assert (native_hours(mirror), content(mirror.warehouse)) == ([], before)


def test_pages_that_a_reload_lacks_have_their_states_of_hours_that_left(mirror):
    before = first_hours(mirror, 2)
    load(mirror, [2])
    compact(mirror, 3)
    assert (move(mirror, 2) > 0, native_hours(mirror)) == (True, [2])
    mirror.warehouse.load_hour(mirror.lake.hour(2), [mirror.lake.file(2, [], project) for project in PROJECTS])
    mirror.warehouse.apply_changes()
    assert content(mirror.warehouse) == before


def test_an_hour_that_is_compacted_before_articles_takes_it_in_holds_the_window(mirror):
    load(mirror, [0])
    load(mirror, [1], applied=False)
    assert mirror.warehouse.movable_changes(mirror.lake.hour(2)) is None
    compact(mirror, 3)
    assert mirror.warehouse.movable_changes(mirror.lake.hour(6)).end_hour == mirror.lake.hour(1)
    mirror.warehouse.apply_changes()
    assert mirror.warehouse.movable_changes(mirror.lake.hour(6)).end_hour == mirror.lake.hour(2)
    # by itself, a month leaves when its last hour can no longer change
    for microseconds, is_settled in ((-1, False), (0, True)):
        mirror.warehouse._clock.now = mirror.lake.hour(30 * 24 + 50) + timedelta(microseconds=microseconds)
        assert (mirror.warehouse.movable_changes() is not None) is is_settled
    with mirror.warehouse._connector.build("lose a row") as connection:
        connection.execute("DELETE FROM article_changes WHERE rowid = (SELECT min(rowid) FROM article_changes)")
    with pytest.raises(LakeFileError, match=r"until 2026-11-01 02:00 UTC, the warehouse has \d+ changes .* counts"):
        mirror.warehouse.move_window()


def test_without_its_file_an_hour_is_missed_loudly_and_comes_back_by_a_reload(mirror, again, make, state, caplog):
    before = again(mirror, compacted_hours, 3)
    [path] = (mirror.data / "lake" / "compacted").rglob("*.rows.parquet")
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(LakeFileError, match=r"is missing or unreadable .* stay in the warehouse\. Nothing was changed"):
        move(mirror, 2)
    assert content(mirror.warehouse)["article_changes"] == before["article_changes"]
    path.write_bytes(whole)
    move(mirror, 2)
    assert content(mirror.warehouse) == before
    assert lake_files(mirror.warehouse, "lake_article_changes") == [str(path)]
    path.unlink()
    mirror.warehouse.publish()
    found = content(mirror.warehouse, ["article_changes"])
    assert set(found["article_changes"]["batch_hour"].to_pylist()) == {mirror.lake.hour(2)}
    assert "older hours of article_changes" in caplog.text
    assert [one.row_count == one.expected_count for one in audits(mirror)] == [False, False, True]
    # hours go on being taken in, and nothing is computed from a part of the history
    load(mirror, [3])
    gone = r"is gone\. No other .* changes from 2026-11-01 00:00 to 2026-11-02 00:00 UTC, .* Nothing was changed"
    with pytest.raises(LakeFileError, match=gone):
        mirror.warehouse.rebuild_articles()
    load(mirror, [1], applied=False)
    with pytest.raises(LakeFileError, match="which needs only the archive"):
        mirror.warehouse.apply_changes()
    path.write_bytes(whole)
    zeros(path)
    damaged = rf"(?s)Older rows that .* cannot be read: .*{path.name} is damaged: .*Nothing"
    with pytest.raises(LakeFileError, match=damaged):
        mirror.warehouse.apply_changes()
    path.unlink()
    load(mirror, [0, 2])
    plain = make()
    load(plain, range(4))
    assert content(mirror.warehouse) == content(plain.warehouse)
    assert state(mirror.warehouse) == state(plain.warehouse)


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """A published file with two hours in the lake, of which one is loaded again in part, and two of its own."""
    made = mirror_in(tmp_path_factory.mktemp("older"))
    load(made, range(4))
    compact(made, 3)
    move(made, 2)
    load(made, [1], 1, projects=PROJECTS[1:2])
    made.warehouse.publish()
    return made.warehouse


def test_a_compaction_fails_if_older_hours_cannot_leave(mirror, monkeypatch):
    monkeypatch.setattr(Warehouse, "move_window", Mock(side_effect=LakeFileError("A lake file is missing.")))
    with pytest.raises(LakeFileError, match=r"^A lake file is missing\.$"):
        compact_lake(Layout(mirror.data), mirror.warehouse, Engine(workers=1), memory_bytes=1 << 20, threads=1)


def test_a_moved_data_folder_finds_older_changes_again(older, data):
    before = content(older)
    close_all()
    shutil.copytree(older.data, data)
    assert (Warehouse(data).published_window(), Warehouse(data).relocate()) == (START + timedelta(hours=2), 2)
    moved = Warehouse(data.rename(data.with_name("it's elsewhere")), clock=older._clock)
    assert moved.relocate() == 2
    with moved.connect_published() as connection:
        found = connection.sql("SELECT * FROM article_changes ORDER BY ALL").to_arrow_table()
    assert found == before["article_changes"]
    moved.rebuild_articles()
    assert content(moved) == before


def test_a_plain_client_of_any_version_reads_them_under_any_name(older, tmp_path):
    """Queries with parameters want a `USE`."""
    views = ("article_changes", "most_edited", "article_bodies", "titles", "activity", "redirects", "project_state")
    calls = ("articles_at('2026-11-02', inexact := true)", "article_history('enwiki', 'Page_3')")
    asked = [
        *(f"SELECT count(*) FROM w.{view}" for view in views),
        "SELECT count(wikitext) FROM w.article_bodies",
        *(f"USE w; SELECT count(*) FROM {call}" for call in calls),
        "USE w; SELECT wikitext FROM article_text('enwiki', 'Page_3')",
    ]
    with shown(older) as connection:
        own = [query.replace("w.", "").removeprefix("USE w; ") for query in asked]
        wanted = [str(connection.execute(query).fetchall()) for query in own]
    program = f"""\
import duckdb, sys
with duckdb.connect() as c:
    c.execute(f"ATTACH '{{sys.argv[1]}}' AS w (READ_ONLY)")
    for query in {asked}:
        print(c.execute(query).fetchall())
"""
    command = [sys.executable, "-c", NO_BAR + program, str(older.published_path)]
    for folder in {None, os.environ.get("TEST_OTHER_DUCKDB")}:
        env = os.environ | ({"PYTHONPATH": folder} if folder else {})
        told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=120)
        assert told.stdout.splitlines() == wanted


@pytest.mark.parametrize(
    ("query", "cold"),
    [
        ("FROM article_changes WHERE batch_hour >= '2026-11-01 02:00:00+00'", False),
        ("FROM article_changes WHERE batch_hour = '2026-11-01 03:00:00+00'", False),
        ("FROM article_changes WHERE event_at >= '2026-11-01 03:30:00+00'", False),
        ("FROM changes_between('2026-11-01 03:30:00+00', '2026-11-01 04:30:00+00')", False),
        ("FROM article_changes WHERE batch_hour >= '2026-11-01 01:00:00+00'", True),
        ("FROM changes_between('2026-11-01 01:00:00+00', '2026-11-01 01:30:00+00')", True),
    ],
)
def test_a_question_for_newer_hours_opens_no_file_of_the_lake(older, query, cold):
    [(_, plan)] = older.sql(f"EXPLAIN ANALYZE SELECT max(name) {query}").rows
    assert ("PARQUET" in plan) == cold


def test_a_kill_leaves_each_change_in_one_place(mirror, again, killing):
    before = again(mirror, compacted_hours, 3)
    with killing(mirror.data, "2026-12-20") as kill_at:
        kill_at("older changes leaving")
        assert native_hours(mirror) == [0, 1, 2]
        kill_at("older changes gone")
        assert (native_hours(mirror), content(mirror.warehouse)) == ([], before)
        load(mirror, [1], 1, projects=PROJECTS[1:2])
        before = content(mirror.warehouse)
        kill_at("held changes leaving")
        assert (native_hours(mirror), content(mirror.warehouse)) == ([1], before)
    compact(mirror, 40)
    assert (native_hours(mirror), content(mirror.warehouse)) == ([], before)
