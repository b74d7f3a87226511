"""Hour files: form, order, repetitions, what they hold, and how they are made and kept."""

import gzip
import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import Mock

import pytest

from resources.sandbox.settings import Settings
from resources.sandbox.store import archived_world, archives
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.sandbox.store.archives import (
    BatchStore,
    Message,
    TarWriter,
    in_reading_order,
    partition,
    with_repetitions,
)
from resources.sandbox.world.wire import Chance
from tests.unit.sandbox.conftest import FILE_KEYS, members_of, records_of, wait_until

HOUR = timedelta(hours=1)
START = datetime(2026, 11, 19, 23, tzinfo=UTC)


def settings_in(state, **options):
    return Settings(**{"state": state, "projects": ("frwiki",), "changes_per_hour": 150, "body_bytes": 1500, **options})


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return ArchivedWorld(settings_in(tmp_path_factory.mktemp("world")), member_bytes=200_000)


def published(record):
    return datetime.fromisoformat(record["event"]["date_published"])


def ended(batch):
    return datetime.fromisoformat(batch.record["date_modified"][:19] + "+00:00")


def test_archives_and_their_records_have_the_services_form(world):
    batches = world.batches(START)
    assert [b.record["identifier"] for b in batches] == [f"frwiki_namespace_{n}" for n in (0, 10, 14)]
    for batch in batches:
        record = batch.record
        assert list(record) == FILE_KEYS
        own = {"is_part_of": {"identifier": "frwiki"}, "in_language": {"identifier": "fr"}}
        own |= {"namespace": {"identifier": int(record["identifier"][-2:].strip("_"))}}
        assert record == record | own | {"size": {"value": round(batch.size / 1e6, 3), "unit_text": "MB"}}
        assert re.fullmatch(r"2026-11-20T00:0\d:\d\d(\.\d{0,8}[1-9])?Z", record["date_modified"])
    batch = batches[0]
    content = batch.path.read_bytes()
    assert hashlib.md5(content).hexdigest() == batch.version == batch.record["version"]
    assert len(content) == batch.size
    assert content[4:8] == bytes(4)  # no time in the gzip header
    plain = gzip.decompress(content)
    assert (plain[-1024:], len(plain) % 512) == (bytes(1024), 0)  # two empty blocks end a tar
    members = members_of(batch.path)
    assert [info.name for info, _ in members] == [f"frwiki_namespace_0_{n}.ndjson" for n in range(len(members))]
    assert len(members) >= 3
    for info, text in members:
        assert len(text) <= 200_000
        assert text.endswith(b"\n")
        assert not re.search(rb"[<>&]|\n\n", text)
        assert b"\\u003c" in text
        assert (info.mode, info.mtime) == (0o766, int((START + HOUR).timestamp()))
    assert 3.5 < len(plain) / len(content) < 8


def test_the_default_member_size_gives_default_hours_several_members(tmp_path):
    batch = ArchivedWorld(Settings(state=tmp_path, projects=("enwiki",))).batches(START)[0]
    assert len(members_of(batch.path)) >= 4
    assert len(records_of(batch)) >= 2000
    TarWriter(BytesIO()).begin("more than a USTAR header can hold", 0o766, 0, 8 << 30)


def test_exports_begin_after_the_hour_and_end_before_the_list_appears(tmp_path):
    world = ArchivedWorld(settings_in(tmp_path, seed=2, projects=("enwiki", "frwiki"), changes_per_hour=20))
    for hour in (START + n * HOUR for n in range(3)):
        ready = world.hour_ready_at(hour)
        assert timedelta(minutes=64) <= ready - hour <= timedelta(minutes=72)
        for batch in world.batches(hour):
            began = world.export_started_at(batch.record["is_part_of"]["identifier"], hour)
            assert timedelta(minutes=61) < began - hour < timedelta(minutes=68)
            assert began < ended(batch) < ready
    hours = [START + n * HOUR for n in range(40)]
    for hour in hours:
        assert world.export_started_at("wikidatawiki", hour) < world.hour_ready_at(hour)
    alone = ArchivedWorld(settings_in(tmp_path, entities=0))
    assert min(alone.hour_ready_at(hour) - hour for hour in hours) == timedelta(minutes=64)


def test_files_overlap_until_their_own_export(world, tmp_path):
    first, second = (records_of(world.batches(START + n * HOUR)[0]) for n in range(2))
    end = world.export_started_at("frwiki", START)
    assert all(START <= published(record) < end for record in first)
    assert max(map(published, first)) > START + HOUR
    late = {record["event"]["identifier"] for record in first if published(record) >= START + HOUR}
    assert late <= {record["event"]["identifier"] for record in second}
    assert len(late) > 5
    apart = ArchivedWorld(settings_in(tmp_path, overlap=False))
    assert apart.export_started_at("frwiki", START) == START + HOUR
    alone = records_of(apart.batches(START)[0])
    assert all(START <= published(record) < START + HOUR for record in alone)
    assert ended(apart.batches(START)[0]) > START + HOUR + timedelta(minutes=1)


def test_a_file_holds_every_event_of_its_time_but_changes_of_visibility(world):
    end = world.export_started_at("frwiki", START)
    events = [e for e in world.events("frwiki", START, end) if e.title.namespace == 0]
    assert any(event.type == "visibility-change" for event in events)
    expected = Counter(json.dumps(world.record(e)) for e in events if e.type != "visibility-change")
    records = records_of(world.batches(START)[0])
    found = Counter(json.dumps(record) for record in records)
    assert set(found) == set(expected)
    assert 0 < (found - expected).total() < 0.01 * expected.total()
    # order is kept within a partition only
    for values in ([published(record) for record in records], [record["name"] for record in records]):
        assert values != sorted(values)
    last, backwards = defaultdict(lambda: START), 0
    for record in records:
        lane = partition("/frwiki/" + record["name"].replace("_", " "))
        backwards += published(record) < last[lane]
        last[lane] = max(published(record), last[lane])
    assert backwards < 0.01 * len(records)  # repetitions alone


def test_reading_order_loses_nothing_depends_on_the_chance_and_repeats_few():
    messages = [Message(f"/p/{n % 90}", bytes) for n in range(1000)]
    one, again, two = (list(in_reading_order(messages, Chance(name))) for name in ("one", "one", "two"))
    assert sorted(map(id, one)) == sorted(map(id, messages))
    assert one == again != two
    assert list(in_reading_order([], Chance("one"))) == []
    assert {partition(m.key) for m in messages} <= set(range(50))
    for count in (1, 120, 121, 122, 150, 281, 3000):
        lines = [b"%d" % n * (n % 50 + 1) for n in range(count)]
        found = Counter(with_repetitions(lines))
        assert set(found) == set(lines)
        assert set(found.values()) <= {1, 2}
        assert sum(number == 2 for number in found.values()) == (count + 39) // 160 <= count * 0.01


def told(world):
    batches = [(batch.version, batch.record) for batch in world.batches(START)]
    return batches, world.snapshot("frwiki_namespace_0", START).record


def told_together(folder):
    """What a process tells that begins when another has come here as well."""
    (folder / f"{os.getpid()}.here").touch()
    wait_until(lambda: len([*folder.glob("*.here")]) == 2)
    return told(ArchivedWorld(settings_in(folder / "state"), member_bytes=200_000))


def test_archives_are_byte_identical_across_processes_that_make_them_at_once(world, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert [*pool.map(told_together, [tmp_path] * 2)] == [told(world)] * 2
    assert not list(tmp_path.rglob("*.part"))


def contents():
    return {"x_namespace_0": [Message("/x", lambda: b"{}")]}


def test_a_failed_making_leaves_nothing_behind(tmp_path, monkeypatch):
    store, fails = BatchStore(tmp_path), Mock(side_effect=RuntimeError("stop"))
    for make in (fails, lambda: {"x_namespace_0": [Message("/x", lambda: b"{}"), Message("/y", fails)]}):
        with pytest.raises(RuntimeError, match="stop"):
            store.archives("x", START, make)
    with monkeypatch.context() as patch:
        patch.setattr(archives.os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            store.archives("x", START, contents)
    assert not list(tmp_path.rglob("*.gz"))
    assert not list(tmp_path.rglob("*.part"))
    assert [a.identifier for a in store.archives("x", START, lambda: {"x_namespace_0": []})] == ["x_namespace_0"]


def test_threads_wait_for_one_maker_and_what_another_process_finished_first_is_taken(tmp_path):
    store, asked, made = BatchStore(tmp_path / "threads"), [], []

    def make_once():
        made.append(1)
        wait_until(lambda: len(asked) == 6)
        return contents()

    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(lambda _: asked.append(1) or store.archives("x", START, make_once), range(6))]
    assert len(made) == 1
    assert found == [found[0]] * 6

    def make():
        # another maker's folder appears while this one is at work
        assert BatchStore(tmp_path).archives("x", START, contents)
        return contents()

    (archive,) = BatchStore(tmp_path).archives("x", START, make)
    assert members_of(archive.path)[0][1] == b"{}\n"
    assert not list(tmp_path.rglob("*.part"))
    (new,) = BatchStore(tmp_path, "new").archives("x", START, contents)
    assert new.path.exists()
    assert not archive.path.exists()


def test_hours_are_made_once_removed_past_retention_and_made_again_on_demand(tmp_path):
    world = ArchivedWorld(settings_in(tmp_path, changes_per_hour=20))
    old = world.batches(START)[0]
    place, content = old.path, old.path.read_bytes()
    stamp = place.stat().st_mtime_ns
    world.batches(START + 48 * HOUR)
    assert ArchivedWorld(world._settings).batches(START)[0] == old
    assert place.stat().st_mtime_ns == stamp
    world.batches(START + 62 * HOUR)
    assert not place.exists()
    assert world.batches(START)[0] == old
    assert place.read_bytes() == content


def test_other_code_or_tables_make_other_archives():
    package, makers = Path(archived_world.__file__).parents[1], ("world", "store", "data")
    digested = {path for pattern in archived_world._MADE_BY for path in package.glob(pattern)}
    assert {path for one in makers for path in (package / one).rglob("*.*") if path.suffix != ".pyc"} == digested


def test_a_quiet_namespace_is_not_listed(tmp_path):
    world = ArchivedWorld(settings_in(tmp_path, changes_per_hour=20, namespaces=(6, 10)))
    listed = [{batch.record["identifier"] for batch in world.batches(START + n * HOUR)} for n in range(12)]
    assert world.structured.snapshot_identifiers() == []
    assert any("frwiki_namespace_6" in hour for hour in listed)
    assert any("frwiki_namespace_6" not in hour for hour in listed)
    assert all(BatchStore(tmp_path / "store").archives("quiet", START, dict) == [] for _ in range(2))
    assert all(len(records_of(batch)) > 0 for n in range(12) for batch in world.batches(START + n * HOUR))
