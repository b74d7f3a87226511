"""Snapshots: what they hold against the page table, both forms, determinism, how they are made and kept."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from unittest.mock import Mock

import pytest

from resources.sandbox.clock import Clock
from resources.sandbox.preparation import Task
from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import STRUCTURED, WIKIDATA, ArchivedWorld
from resources.sandbox.store.exports import Exports, Turn
from resources.sandbox.store.snapshot_store import Export, SnapshotStore
from resources.sandbox.world.census import Standing
from resources.sandbox.world.schedule import Timetable, usual_articles
from resources.sandbox.world.text.words import Titles, lexicon_of
from resources.sandbox.world.world import World, micros, moment_of
from tests.unit.sandbox.conftest import FILE_KEYS, lines_of, members_of

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(minutes=31)
ARTICLES = "frwiki_namespace_0"


def settings_in(state, **options):
    shape = {"projects": ("frwiki",), "changes_per_hour": 100, "body_bytes": 500, "chunk_bytes": 200_000}
    return Settings(**{"state": state, **shape, **options})


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return ArchivedWorld(settings_in(tmp_path_factory.mktemp("world")))


class TestContent:
    def test_every_page_that_stands_is_told_and_few_others(self, world):
        counts, days = Counter(), range(1_440, 6 * 1_440, 1_440)
        for namespace, minutes in [*product((0, 10, 14), (0, 29)), *product([0], (14, 28, 42, 56, *days))]:
            started = START + timedelta(minutes=minutes)
            entries = list(world.snapshot_entries(f"frwiki_namespace_{namespace}", started))
            counts.update(entry.standing for entry in entries)
            by_standing = {standing: [e.event for e in entries if e.standing == standing] for standing in Standing}
            pages = list(world.pages_at("frwiki", namespace, started))
            assert sorted(by_standing[Standing.LIVE]) == sorted(pages)
            live = {(event.state.identifier, event.title): event for event in pages}
            for event in by_standing[Standing.REPEATED]:
                assert live[event.state.identifier, event.title] == event
            for event in by_standing[Standing.OLDER]:
                newer = live[event.state.identifier, event.title]
                assert event.published < newer.published
                assert event.state.revision.identifier < newer.state.revision.identifier
            copies = len(by_standing[Standing.REPEATED]) + len(by_standing[Standing.OLDER])
            assert copies < 0.01 * len(pages)
            assert len(by_standing[Standing.LINGERING]) <= 5
            assert all(event.type == "update" and event.published < micros(started) for event, _ in entries)
            # the hour of the snapshot's newest row less ten minutes is the first that a mirror must have beside it,
            # and it tells of the end of what lingers
            newest = moment_of(max(entry.event.published for entry in entries))
            first = (newest - timedelta(minutes=10)).replace(minute=0, second=0, microsecond=0)
            ends = {e.title: e for e in world.events("frwiki", first, started) if e.type == "delete"}
            standing = {event.title for event in pages}
            for event in by_standing[Standing.LINGERING]:
                assert event.title not in standing
                assert ends[event.title].published > event.published
                assert ends[event.title].state.identifier == event.state.identifier
        assert counts[Standing.REPEATED] > 1
        assert counts[Standing.OLDER] > 0
        assert counts[Standing.LINGERING] > 2

    def test_the_archive_holds_the_entries_as_records(self, world):
        lines = lines_of(world.snapshot(ARTICLES, START).path)
        records = [world.record(entry.event) for entry in world.snapshot_entries(ARTICLES, START)]
        assert [json.loads(line) for line in lines] == records
        for line in lines[:200]:
            assert not set(b"<>&") & set(line)
            record = json.loads(line)
            assert record["event"]["type"] == "update"
            assert {"partition", "offset"}.isdisjoint(record["event"])
            assert record["namespace"] == {"identifier": 0}
            assert record["article_body"]["html"]
        with pytest.raises(ValueError, match="no snapshot 'dewiki_namespace_0'; the snapshots are frwiki_namespace_0"):
            world.snapshot("dewiki_namespace_0", START)
        events = [entry.event for entry in world.snapshot_entries(ARTICLES, START)]
        for key in (lambda e: e.published, lambda e: e.title, lambda e: e.state.identifier):
            falls = sum(key(one) > key(other) for one, other in pairwise(events))
            assert 0.2 * len(events) < falls < 0.8 * len(events)


class TestForm:
    def test_many_members_and_their_chunks(self, world):
        snapshot = world.snapshot(ARTICLES, START)
        members = members_of(snapshot.path)
        assert [info.name for info, _ in members] == [f"{ARTICLES}_{n}.ndjson" for n in range(len(members))]
        assert len(members) == len(snapshot.chunks) >= 8
        assert {info.mode for info, _ in members} == {0o766}
        assert all(len(text) <= 200_000 and text.endswith(b"\n") for _, text in members)
        texts = []
        for chunk in snapshot.chunks:
            ((info, text),) = members_of(chunk.path)
            number = chunk.record["identifier"].removeprefix(f"{ARTICLES}_chunk_")
            assert (info.name, info.mode) == (f"chunk_{number}.ndjson", 0o644)
            texts.append((int(number), text))
        numbers = [number for number, _ in texts]
        assert numbers != sorted(numbers) == list(range(len(members)))
        by_number = [text for _, text in sorted(texts)]
        assert sorted(by_number) == sorted(text for _, text in members)
        assert by_number != [text for _, text in members]

    def test_a_single_member(self, world, tmp_path):
        single = ArchivedWorld(settings_in(tmp_path, single_member=True)).snapshot(ARTICLES, START)
        ((info, text),) = members_of(single.path)
        many = world.snapshot(ARTICLES, START)
        assert info.name == f"{ARTICLES}_0.ndjson"
        assert text == b"".join(content for _, content in members_of(many.path))
        assert [chunk.record for chunk in single.chunks] == [chunk.record for chunk in many.chunks]
        assert single.version != many.version

    def test_records_tell_the_archives(self, world):
        snapshot = world.snapshot(ARTICLES, START, START + timedelta(minutes=40, microseconds=5))
        assert list(snapshot.record) == [*FILE_KEYS, "chunks"]
        own = {"is_part_of": {"identifier": "frwiki"}, "in_language": {"identifier": "fr"}}
        own |= {"namespace": {"identifier": 0}, "chunks": [chunk.record["identifier"] for chunk in snapshot.chunks]}
        assert snapshot.record == snapshot.record | own
        for file in (snapshot, *snapshot.chunks):
            content = file.path.read_bytes()
            assert hashlib.md5(content).hexdigest() == file.version == file.record["version"]
            megabytes = round(len(content) / 1e6, 3) if file is snapshot else len(content) / 1e6
            assert file.record["size"] == {"value": megabytes, "unit_text": "MB"}
            assert file.record["date_modified"].startswith("2026-11-20T01:11:00.000005")
            assert list(file.record)[:7] == list(snapshot.record)[:7]

    def test_few_lines_and_long_ones(self, tmp_path, monkeypatch):
        monkeypatch.setattr("resources.sandbox.store.snapshot_store.PIECE_BYTES", 100)
        store = SnapshotStore(tmp_path, "1", 50, single_member=False)
        many = ([b"a"], [b"a" * 400, b"b", b"c" * 10], [b"%049d" % n for n in range(11)], [b"a" * 25, b"a" * 24])
        for number, lines in enumerate(many):
            holding = store.holding(Export("x_namespace_0", number), lambda lines=lines: lines)
            assert b"".join(text for _, text in members_of(holding.whole.path)) == b"".join(s + b"\n" for s in lines)
            assert len(holding.chunks) == len(members_of(holding.whole.path))
            assert all(len(text) <= 50 or text.count(b"\n") == 1 for _, text in members_of(holding.whole.path))
        export = Export("x_namespace_0", 0)
        under_way = store._target(export).with_name("another.1-2.part")
        under_way.mkdir()
        store.keep_only("x_namespace_0", [export])
        assert {one.name for one in under_way.parent.iterdir()} == {"0-0", under_way.name}
        assert store.holding(Export("x_namespace_0", 9), lambda: ()) is None
        assert store.holding(Export("x_namespace_0", 9), lambda: [b"not asked again"]) is None


MEASURE = """
import pathlib, sys
from datetime import datetime
from resources.sandbox.settings import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
articles, rate, body, chunk = map(int, sys.argv[3:])
world = ArchivedWorld(Settings(state=pathlib.Path(sys.argv[1]), projects=("enwiki",), namespaces=(0,),
                       articles=articles, changes_per_hour=rate, body_bytes=body, chunk_bytes=chunk))
moment = datetime.fromisoformat(sys.argv[2])
world.record(next(world.pages_at("enwiki", 0, moment)))  # the stock of words and blocks is there whatever the size
# not `ru_maxrss`, which begins with what the process had that started this one
peak = lambda: int(pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
before = peak()
snapshot = world.snapshot("enwiki_namespace_0", moment)
grown = (peak() - before) // 1024
lines = sum(1 for _ in world.snapshot_entries("enwiki_namespace_0", moment))
print(grown, lines, snapshot.size, len(snapshot.chunks))
"""


@pytest.mark.parametrize(
    ("articles", "rate", "body", "chunk", "least_bytes", "chunks", "most_megabytes"),
    [
        # 40 MB of lines, two of the chunks full
        (1_500, 200, 20_000, 25_000_000, 5_000_000, {2}, 24),
        pytest.param(200_000, 2200, 6000, 100_000_000, 400_000_000, range(16, 99), 64, marks=pytest.mark.soak),
    ],
)
def test_making_a_snapshot_does_not_hold_it_in_memory(
    tmp_path, articles, rate, body, chunk, least_bytes, chunks, most_megabytes
):
    numbers = map(str, (articles, rate, body, chunk))
    command = [sys.executable, "-c", MEASURE, str(tmp_path), START.isoformat(), *numbers]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=3600)
    grown, lines, size, found = map(int, done.stdout.split())
    assert 0.975 * articles < lines < 1.1 * articles
    assert size > least_bytes
    assert found in chunks
    assert grown < most_megabytes


class TestPopulation:
    @pytest.mark.parametrize(
        ("rate", "articles"),
        [(2200, 5_000), (2200, 20_000), (2200, 200_000), (60, 200_000), (5, 5_000), (300, 50_000), (100, 10_000)],
    )
    def test_there_are_as_many_pages_as_asked_and_as_many_changes(self, rate, articles):
        timetable = Timetable(1, "enwiki", (0,), rate, Titles(lexicon_of("en")), articles)
        casts = [cast for cast in timetable.casts if not cast.namespace]
        assert sum(cast.families * cast.script.pages for cast in casts) == pytest.approx(articles, rel=0.02)
        acts = sum(cast.count * len(cast.script.acts) for cast in casts)
        usual = Timetable(1, "enwiki", (0,), rate, Titles(lexicon_of("en"))).casts
        wanted = sum(c.count * len(c.script.acts) for c in usual if not c.namespace)
        assert acts == pytest.approx(wanted, rel=0.1, abs=50)
        assert all(3 * cast.script.period < 5 * 8_760 for cast in casts)

    def test_a_small_world_is_the_same_with_and_without_the_bound_and_the_default_has_some_thousands(self, tmp_path):
        casts = Timetable(1, "enwiki", (0, 10, 14), 220, Titles(lexicon_of("en"))).casts
        pages = sum(cast.families * cast.script.pages for cast in casts if not cast.namespace)
        assert usual_articles(220) == pytest.approx(pages, rel=0.02)
        assert min(cast.count for cast in Timetable(1, "enwiki", (0,), 2200, Titles(lexicon_of("en")), 1).casts) > 0
        assert pages < 5_000
        assert ArchivedWorld(Settings(state=tmp_path, changes_per_hour=220))._wiki("enwiki").timetable.casts == casts
        pages = sum(1 for _ in ArchivedWorld(Settings(state=tmp_path)).pages_at("enwiki", 0, START))
        assert 4_000 < pages < 6_000


def test_an_export_that_ends_after_midnight_is_the_next_one_until_then(tmp_path):
    world = World(Settings(state=tmp_path, snapshot_hour=23))
    started, ended = world.snapshot_times("enwiki_namespace_0", START)
    exports = Exports(world, Clock(ended - timedelta(seconds=1)))
    assert exports.upcoming("enwiki_namespace_0") == Turn(started, ended)
    assert exports.turn("enwiki_namespace_0", free=False).started < started


def test_archives_of_two_served_exports_and_of_those_for_either_account_and_to_come_are_kept(tmp_path):
    """Those of one list are made together, and a repeated request removes nothing."""
    world, name, clock = World(Settings(state=tmp_path)), "enwiki_namespace_0", Clock(START + 12 * HOUR)
    contents, made = Mock(wraps=world, snapshot=Mock(), keep_snapshots=Mock()), []
    exports = Exports(contents, clock)
    exports.maker = made.append
    exports.beforehand([name, "frwiki_namespace_0"], free=True)
    assert made == [[(one, exports.turn(one, free=True)) for one in (name, "frwiki_namespace_0")]]
    for _ in range(3):
        exports.export(name)
        for _ in range(2):
            exports.snapshot(name, free=False)
    calls = [{*kept} for (_, kept), _ in contents.keep_snapshots.call_args_list]
    coming, _ = world.snapshot_times(name, START + 24 * HOUR)
    others = {(exports.turn(name, free=True).started, 0), (coming, 0)}
    assert calls == [others | {(clock.now(), serial) for serial in one} for one in ({1}, {1, 2}, {2, 3})]


def test_a_worker_makes_the_export_that_its_task_names():
    world = Mock()
    for serial, (area, contents) in enumerate((("", world), (WIKIDATA, world), (STRUCTURED, world.structured))):
        Task("name", START, serial, area).make(world)
        contents.snapshot.assert_called_with("name", START, serial=serial)
        assert Task("name", START, serial, area).is_made(world) is contents.has_snapshot.return_value
        contents.has_snapshot.assert_called_with("name", START, serial)
