"""Which files go, when, and that none goes that somebody needs."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from assets.steps import housekeeping
from assets.steps.housekeeping import Cleaning, clean, is_due
from resources.data_folder import copying
from resources.datasets import ARTICLE_CHANGES, SNAPSHOT_ARTICLES
from resources.datasets.live import LIVE_CHANGES, path_of
from resources.lake import Layout
from resources.lake.rejects import lines_file
from resources.storage import Storage
from tests.builds import OpenWarehouse, close_all, lay
from tests.unit.assets.conftest import listed, write_set
from tests.unit.warehouse.conftest import START, Clock, Lake

#: Before everything that is loaded; long after it.
EARLIER, LATER = START, START + timedelta(days=900)
GRACE = timedelta(hours=24)


class House:
    """A data folder with what the tests put there; files are as old as they say."""

    def __init__(self, data):
        self.data, self.layout, self.lake = data, Layout(data), Lake(data)
        self.warehouse = OpenWarehouse(lay(data), lock_timeout=5.0, clock=Clock())

    def aged(self, *paths, moment=EARLIER):
        for path in paths:
            os.utime(path, (moment.timestamp(), moment.timestamp()))

    def files(self):
        found = (path for folder in ("lake", "archive") for path in (self.data / folder).rglob("*"))
        return {self.name(path) for path in found if path.is_file()}

    def clean(self, hours=0, grace=GRACE, **more):
        return clean(self.layout, self.warehouse, grace=grace, now=LATER + timedelta(hours=hours), **more)

    def name(self, path):
        return path.relative_to(self.data).as_posix()

    def archive(self, path, moment=EARLIER, content=b"archive"):
        path.parent.mkdir(parents=True, exist_ok=True)
        note = path.with_name(f"{path.name}.json")
        path.write_bytes(content)
        note.write_text("{}")
        self.aged(path, note, moment=moment)
        return {self.name(path), self.name(note)}


@pytest.fixture
def house(tmp_path):
    yield House(tmp_path / "data")
    close_all()


def test_redone_hour_goes_after_the_grace_period_and_nothing_else(house):
    lake, warehouse = house.lake, house.warehouse
    rows = [lake.change(1, "A", 1, html="h")]
    first, second = lake.file(0, rows, rejects=[b"bad"]), lake.file(0, rows, tag="again")
    never_loaded, not_yet_loaded = lake.file(1, rows), lake.file(0, rows, tag="newer")
    long_lines = lines_file(first.rejects_path)
    long_lines.write_bytes(b"long")
    house.aged(first.path, first.rejects_path, long_lines, second.path, never_loaded.path)
    house.aged(not_yet_loaded.path, moment=LATER)
    warehouse.load_hour(lake.hour(0), [first])
    warehouse.publish()
    warehouse.load_hour(lake.hour(0), [second])
    before = house.files()

    assert house.clean(grace=timedelta(0)) == house.clean(dry_run=True)
    assert house.files() == before, "the published file names it still"

    warehouse.publish()
    gone = {house.name(first.path), house.name(first.rejects_path), house.name(long_lines)}
    told = house.clean()
    assert ({file.path for file in told.waiting}, told.freed) == (gone, ())
    assert told.waiting[-1].path == house.name(first.path), "without this file, the others are not found again"
    assert told.waiting_bytes == first.path.stat().st_size + first.rejects_path.stat().st_size + len(b"long")
    reasons = {(file.due_at, file.why) for file in told.waiting}
    assert reasons == {(LATER + GRACE, "another conversion of the hour is loaded")}
    assert house.clean(hours=23).freed == ()
    with copying(house.data, wait_seconds=0):
        assert house.clean(hours=24) == Cleaning((), told.waiting, is_held=True), "a backup may need them"
    name = first.path.relative_to(house.layout.lake).as_posix()
    found = housekeeping._lake_files(house.layout, {first.path: START}, (), {name}, "")
    assert [path for path, _ in found] == [first.path], "a compacted file has no rejects"
    planned = house.clean(hours=24, dry_run=True)
    assert ({file.path for file in planned.freed}, house.files()) == (gone, before)
    assert (house.clean(hours=24), house.files()) == (planned, before - gone)
    assert house.clean(hours=25) == house.clean(hours=26)
    assert warehouse.sql("SELECT html FROM article_bodies").rows == [("h",)]


def test_a_file_that_cannot_be_removed_makes_no_other_wait_longer(house):
    lake, warehouse = house.lake, house.warehouse
    first, second, third = (lake.file(0, [lake.change(1, "A", 1)], tag=tag) for tag in "abc")
    for one in (first, second):
        house.aged(one.path)
    warehouse.load_hour(lake.hour(0), [second])
    assert len(house.clean().waiting) == 1
    warehouse.load_hour(lake.hour(0), [third])
    # in the place of the file that is due
    first.path.unlink()
    first.path.mkdir()
    house.aged(first.path)
    for hours in (24, 25):  # the file stays due
        with pytest.raises(OSError, match=first.path.name):
            house.clean(hours=hours)
    first.path.rmdir()
    assert [file.due_at for file in house.clean(hours=47).waiting] == [LATER + 2 * GRACE]
    assert len(house.clean(hours=48).freed) == 1


def test_runs_look_once_a_day_or_in_a_shorter_grace_period(house):
    lake, warehouse = house.lake, house.warehouse
    assert is_due(house.layout)
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])])
    house.clean(dry_run=True)
    assert is_due(house.layout), "nobody looked on behalf of a run"
    house.clean()
    looked_at = datetime.fromtimestamp((house.data / "state" / "replaced.json").stat().st_mtime, UTC)

    def due(after, **more):
        return is_due(house.layout, now=looked_at + after, **more)

    assert [due(timedelta(hours=hours)) for hours in (-1, 0, 23, 24)] == [True, False, False, True]
    assert [due(timedelta(hours=hours), grace=timedelta(hours=2)) for hours in (1, 2)] == [False, True]
    assert due(timedelta(0), grace=timedelta(0))


def test_days_are_looked_at_one_by_one_and_what_was_put_aside_is_left(house):
    lake, warehouse = house.lake, house.warehouse
    numbers = (0, 30, 55)
    for number in numbers:
        old, new = (lake.file(number, [lake.change(number + 1, "A", 60 * number + 1)], tag=tag) for tag in "ab")
        house.aged(old.path, new.path)
        warehouse.load_hour(lake.hour(number), [new])
    aside = old.path.parents[1].with_name(f"{old.path.parents[1].name}.moved") / "hour=00" / old.path.name
    aside.parent.mkdir(parents=True)
    aside.write_bytes(b"aside")
    told = house.clean(grace=timedelta(0))
    assert len({file.path.split("/")[2] for file in told.freed}) == len(told.freed) == len(numbers)
    assert aside.exists()


def test_earlier_export_of_an_hour_goes_when_the_later_one_is_loaded(house):
    lake, warehouse, layout = house.lake, house.warehouse, house.layout
    file = lake.file(0, [lake.change(1, "A", 1)])
    house.aged(file.path)
    old = house.archive(layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), file.identifier, "0" * 32))
    now = house.archive(layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), file.identifier, file.version))
    other = house.archive(layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), "frwiki_namespace_0", "1" * 32))
    listing = layout.batch_list(ARTICLE_CHANGES, lake.hour(0))
    listing.write_text(json.dumps([listed(version=file.version)]))
    assert house.clean().waiting == (), "nothing of the hour is loaded"
    warehouse.load_hour(lake.hour(0), [file])
    # what came after the list may be of a run that has not stored its own
    later = layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), file.identifier, "4" * 32)
    other |= house.archive(later, moment=LATER)
    reason = "a newer export of the hour is loaded"
    assert {(one.path, one.why) for one in house.clean().waiting} == {(name, reason) for name in old}
    house.clean(hours=24)
    assert house.files() == now | other | {house.name(listing), house.name(file.path)}

    # what is loaded stays, though the service lists another by now
    listing.write_text(json.dumps([listed(version="2" * 32)]))
    newer = house.archive(layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), file.identifier, "2" * 32))
    # and so does what was never loaded, as long as the one of the list is not
    between = house.archive(layout.batch_archive(ARTICLE_CHANGES, lake.hour(0), file.identifier, "3" * 32))
    assert house.clean(hours=48).waiting == ()
    assert now | newer | between <= house.files()


def test_replaced_version_of_a_snapshot_goes_with_its_archives(house):
    lake, warehouse = house.lake, house.warehouse
    folder = house.layout.snapshot_archive(SNAPSHOT_ARTICLES, "enwiki_namespace_0")
    shared = house.archive(folder / "enwiki_namespace_0_chunk_0.aaaaaaaa.tar.gz")
    lakes, archives = {}, {}
    for number in range(4):
        version = f"{number}" * 32
        snapshot = lake.snapshot([[lake.change(5, "E", 60 * number + 20)]], version=version)
        house.aged(*(file.path for file in snapshot.files))
        lakes[number] = {house.name(file.path) for file in snapshot.files}
        own = f"enwiki_namespace_0_chunk_1.{version[:8]}.tar.gz"
        names = ["enwiki_namespace_0_chunk_0.aaaaaaaa.tar.gz", own]
        manifest = write_set(folder, version, dict.fromkeys(names, version), START + timedelta(days=number))
        archives[number] = {*house.archive(folder / own), house.name(manifest)}
        house.aged(manifest, moment=EARLIER + timedelta(days=number))
        if number < 3:
            warehouse.load_snapshot(snapshot, keep_replaced=1)
    abandoned = house.archive(folder / "enwiki_namespace_0.bbbbbbbb.tar.gz.part", EARLIER + timedelta(days=2.5))
    later_range = folder / "enwiki_namespace_0.bbbbbbbb.tar.gz.part.1024"
    later_range.write_bytes(b"old")
    house.aged(later_range)
    abandoned.add(house.name(later_range))
    under_way = house.archive(folder / "enwiki_namespace_0.cccccccc.tar.gz.part", moment=LATER)
    warehouse.apply_changes()
    warehouse.publish()

    before = house.files()
    # version 0 was let go; 1 and 2 are kept, and 3 is complete and not loaded yet
    house.aged(*(house.data / name for name in lakes[3]), moment=LATER)
    gone = lakes[0] | archives[0] | abandoned
    reasons = dict.fromkeys(lakes[0], "loaded") | dict.fromkeys(archives[0] | abandoned, "complete")
    told = {name: f"newer versions of the snapshot are {state}" for name, state in reasons.items()}
    found = house.clean().waiting
    assert {file.path: file.why for file in found} == told
    assert found[-1].path.endswith(".set.json"), "without the manifest, the files look like a download"
    assert ({file.path for file in house.clean(hours=24).freed}, house.files()) == (gone, before - gone)
    assert shared | under_way | archives[1] | archives[3] <= house.files()
    assert not (house.data / next(iter(lakes[0]))).parent.exists()
    assert warehouse.sql("SELECT count(*) FROM snapshot_articles").rows == [(2,)]


def test_cleaning_that_was_interrupted_is_finished_by_the_next(house, monkeypatch):
    lake, warehouse = house.lake, house.warehouse
    loaded = lake.file(0, [lake.change(1, "A", 1, html="h")])
    rubbish = [loaded.path.with_name(f"{loaded.identifier}.{number:08x}.parquet") for number in range(20)]
    for path in rubbish:
        path.write_bytes(b"old")
    house.aged(loaded.path, *rubbish)
    warehouse.load_hour(lake.hour(0), [loaded])
    warehouse.publish()
    delete, removed = Storage.delete, []

    def interrupted(storage, path):
        if len(removed) == 7:
            raise KeyboardInterrupt
        removed.append(path)
        delete(storage, path)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            house.clean(grace=timedelta(0))
    assert set(loaded.path.parent.iterdir()) == {loaded.path, *rubbish} - {*removed}
    freed = house.clean(grace=timedelta(0)).freed
    assert (len(freed), list(loaded.path.parent.iterdir())) == (20 - 7, [loaded.path])
    assert warehouse.sql("SELECT html FROM article_bodies").rows == [("h",)]


def test_files_of_a_stream_go_when_a_larger_one_has_their_events_or_their_hours_are_past(house):
    folder, hour = house.layout.lake / LIVE_CHANGES, LATER.replace(minute=0)
    old = path_of(folder, hour - timedelta(hours=60), 1, 1)
    merged = [path_of(folder, hour, number, number) for number in (2, 3)]
    kept = [path_of(folder, hour - timedelta(hours=49), 4, 4), path_of(folder, hour, 2, 3), path_of(folder, hour, 5, 5)]
    damaged = old.with_name(f"{old.name}.damaged")
    for path in (old, damaged, *merged, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    house.warehouse.load_hour(house.lake.hour(0), [house.lake.file(0, [house.lake.change(1, "A", 1)])])
    told = dict.fromkeys((old, damaged), "the service no longer has files for these hours")
    told |= dict.fromkeys(merged, "a larger file contains its events")
    assert {house.data / file.path: file.why for file in house.clean().waiting} == told
    house.clean(hours=30)
    assert [path for path in (*told, *kept) if path.exists()] == kept
    # the newest stays, however old it is: it says where the stream goes on
    house.clean(hours=300)
    house.clean(hours=400)
    assert [path.exists() for path in kept] == [False, False, True]


def test_a_file_that_no_compaction_names_stays_while_one_runs_and_while_the_build_file_lacks_data(house):
    path = house.layout.compacted_folder(ARTICLE_CHANGES.name) / "x.rows.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"rows")
    with house.warehouse.compacting():
        assert house.clean() == Cleaning((), ())
    house.clean(hours=30)
    # the clock was set back
    told = [(house.name(path), 4, "no compaction references the file", LATER + GRACE)]
    assert [(one.path, one.size_bytes, one.why, one.due_at) for one in house.clean().waiting] == told
    with house.warehouse._connector.build("lose data") as connection:
        connection.execute("UPDATE internal.meta SET is_complete = false")
    assert house.clean(hours=90) == Cleaning((), ())
