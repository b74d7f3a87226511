"""Snapshots and chunks over HTTP: lists, records, downloads, quotas, older copies, and when they are exported."""

import hashlib
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace

import pytest
import requests

from resources.sandbox import Settings, preparation
from resources.sandbox.__main__ import snapshot_hour
from resources.sandbox.clock import Clock
from resources.sandbox.preparation import Task
from resources.sandbox.store.archived_world import STRUCTURED, ArchivedWorld
from resources.sandbox.store.exports import Exports, newest_hour
from resources.sandbox.world.world import World
from tests.unit.sandbox.conftest import FILE_KEYS, NOW, logged_in, members_of, small_sandbox, wait_until

DAY = timedelta(days=1)
LIST = "/v2/snapshots"
ONE = f"{LIST}/enwiki_namespace_0"
DOWNLOAD = f"{ONE}/download"
CHUNKS = f"{ONE}/chunks"


class QuietWorld(ArchivedWorld):
    """One namespace without a page, one whose archive is too small for the list."""

    def snapshot(self, identifier, *rest):
        snapshot = super().snapshot(identifier, *rest)
        if identifier == "frwiki_namespace_10":
            return None
        if identifier == "enwiki_namespace_10":
            return replace(snapshot, record={**snapshot.record, "size": {"value": 0.0, "unit_text": "MB"}})
        return snapshot


@pytest.fixture(scope="module")
def sandbox_of_snapshots(tmp_path_factory, signing_key):
    folder = tmp_path_factory.mktemp("snapshots")
    shape = {"projects": ("enwiki", "frwiki"), "namespaces": (0, 10), "chunk_bytes": 100_000, "entities": 125}
    with small_sandbox(folder, signing_key, make_world=QuietWorld, **shape) as client:
        yield client.sandbox


@pytest.fixture
def sandbox(sandbox_of_snapshots):
    sandbox = sandbox_of_snapshots
    sandbox.clock.set(NOW)
    sandbox.faults.clear()
    sandbox.exports.clear()
    sandbox.accounts.set_groups("sandbox", ["group_3"])
    for kind in ("snapshot", "chunk"):
        sandbox.accounts.set_quota("sandbox", kind)
    return sandbox


@pytest.fixture
def client(sandbox):
    with logged_in(sandbox) as client:
        sandbox.requests.clear()
        yield client


def md5(content):
    return hashlib.md5(content).hexdigest()


def used(client, kind):
    user = client.sandbox.accounts.identify(client.token)
    return client.sandbox.accounts.quotas.of(user, kind).used


class TestLists:
    def test_the_list(self, client):
        answer = client.call(LIST)
        records = answer.json()
        assert [record["identifier"] for record in records] == ["enwiki_namespace_0", "frwiki_namespace_0"]
        assert list(records[0]) == [*FILE_KEYS, "chunks"]
        assert '"unit_text":"MB"' in answer.text
        assert f'"value":{records[0]["size"]["value"]}e0' in answer.text
        assert client.call(LIST, headers={"Accept": "application/x-ndjson"}).text.count("\n") == 2

    def test_one_record(self, client):
        assert client.call(ONE).json() == client.call(LIST).json()[0]
        assert client.call(ONE, "POST", json={"fields": ["version"]}).json().keys() == {"version"}
        # one too small for the list is there by its name, and one without a page is not
        assert client.call(f"{LIST}/enwiki_namespace_10").status_code == 200
        for name in ("dewiki_namespace_0", "enwiki_namespace_6", "frwiki_namespace_10", "frwiki_namespace_10/chunks"):
            answer = client.call(f"{LIST}/{name}")
            assert answer.status_code == 404
            assert answer.json()["message"].startswith("NoSuchKey")

    def test_filters_and_what_they_exclude_is_not_made(self, client, monkeypatch):
        client.sandbox.clock.advance(DAY)
        client.login()
        root, made = client.sandbox.settings.state / "snapshots", []
        before = {path.name for path in root.glob("*/*/frwiki*/*")}
        for area in client.sandbox.areas.values():
            monkeypatch.setattr(area.exports, "maker", made.append)
        english = [{"field": "is_part_of.identifier", "value": "enwiki"}]
        for group, path in product(("group_3", "group_1"), (LIST, f"{LIST}/structured-contents")):
            client.sandbox.accounts.set_groups("sandbox", [group])
            client.call(path, "POST", json={"filters": english})
        assert {path.name for path in root.glob("*/*/frwiki*/*")} == before
        lists = ["enwiki_namespace_0", "enwiki_namespace_10"], ["enwiki_namespace_0", "frwiki_namespace_0"]
        turn = client.sandbox.exports.turn
        assert made == [[(name, turn(name, free=free)) for name in names] for free in (False, True) for names in lists]
        client.sandbox.accounts.set_groups("sandbox", ["group_3"])
        for name, field, value in (
            ("frwiki", "is_part_of.identifier", "frwiki"), ("enwiki", "identifier", "enwiki_namespace_0"),
            ("frwiki", "in_language.identifier", "fr"), (None, "namespace.identifier", 10), (None, "version", "no"),
        ):  # fmt: skip
            filters = [{"field": field, "value": value}, {"field": "namespace.identifier", "value": 0}]
            answer = client.call(LIST, "POST", json={"filters": filters, "fields": ["identifier"]})
            assert answer.json() == ([{"identifier": f"{name}_namespace_0"}] if name else [])

    def test_chunks(self, client):
        for path in (LIST, ONE, CHUNKS, f"{CHUNKS}/0"):
            assert client.call(path, "POST", json={"fields": "version"}).status_code == 422
        records = client.call(CHUNKS).json()
        identifiers = [record["identifier"] for record in records]
        assert identifiers == client.call(ONE).json()["chunks"]
        assert len(identifiers) >= 4
        assert identifiers != sorted(identifiers)
        assert set(identifiers) == {f"enwiki_namespace_0_chunk_{n}" for n in range(len(identifiers))}
        assert list(records[0]) == FILE_KEYS
        fields = client.call(CHUNKS, "POST", json={"fields": ["size.unit_text"]}).json()
        assert fields == [{"size": {"unit_text": "MB"}}] * len(records)

    def test_a_chunk_by_its_name_or_its_number(self, client):
        for name in ("2", "chunk_2", "enwiki_namespace_0_chunk_2", "anything_2"):
            record = client.call(f"{CHUNKS}/{name}").json()
            assert record["identifier"] == "enwiki_namespace_0_chunk_2"
            content = client.call(f"{CHUNKS}/{name}/download", allow_redirects=True).content
            assert md5(content) == record["version"]
            assert [info.name for info, _ in members_of(content)] == ["chunk_2.ndjson"]
        for name in ("999", "x", "enwiki_namespace_0_chunk_", "02"):
            assert client.call(f"{CHUNKS}/{name}").status_code == 404
            assert client.call(f"{CHUNKS}/{name}/download", "HEAD").status_code == 404
            if name != "enwiki_namespace_0_chunk_":
                assert client.fetch(client.signed(f"{CHUNKS}/{name}/download")).status_code == 404


class TestDownloads:
    def test_a_download_and_its_headers(self, client):
        for path, digits in ((ONE, 3), (f"{CHUNKS}/1", 6)):
            record = client.call(path).json()
            head = client.call(f"{path}/download", "HEAD")
            assert (head.status_code, head.headers["ETag"]) == (200, f'"{record["version"]}"')
            whole = client.fetch(client.signed(f"{path}/download"))
            assert md5(whole.content) == record["version"]
            assert len(whole.content) == int(head.headers["Content-Length"])
            assert round(len(whole.content) / 1e6, digits) == record["size"]["value"]

    def test_faults_hit_chunks_too(self, client):
        client.sandbox.faults.add(path="/v2/snapshots/*/chunks/*_chunk_1/download", kind="cut")
        with pytest.raises(requests.RequestException):
            client.call(f"{CHUNKS}/1/download", allow_redirects=True)
        third = f"{CHUNKS}/enwiki_namespace_0_chunk_3/download"
        client.sandbox.faults.add(path=third, kind="line_malformed", listed=True)
        damaged = client.call(f"{CHUNKS}/3").json()
        content = client.call(f"{CHUNKS}/3/download", allow_redirects=True).content
        assert (md5(content), len(content) / 1e6) == (damaged["version"], damaged["size"]["value"])
        client.sandbox.faults.clear()
        assert client.call(f"{CHUNKS}/3").json()["version"] != damaged["version"]


class TestQuotas:
    def test_every_get_is_counted_and_nothing_else(self, client):
        for path, kind, other in ((ONE, "snapshot", "chunk"), (f"{CHUNKS}/1", "chunk", "snapshot")):
            client.sandbox.accounts.set_quota("sandbox", kind, limit=2)
            client.sandbox.accounts.set_quota("sandbox", other)
            client.call(LIST), client.call(path), client.call(CHUNKS)
            client.call(f"{path}/download", "HEAD")
            assert used(client, kind) == 0
            statuses = [client.call(f"{path}/download", headers={"Range": "bytes=0-1"}).status_code for _ in range(3)]
            assert statuses == [307, 307, 429]
            assert (used(client, kind), used(client, other)) == (2, 0)
            told = client.call("/v1/get-user", "POST").json()
            assert (told[f"{kind}_requests_count"], told[f"{kind}_limit"]) == (2, 2)
            assert client.call(f"{path}/download", "HEAD").status_code == 200

    def test_what_is_not_there_is_counted_and_the_free_group_has_its_numbers(self, client, monkeypatch):
        with monkeypatch.context() as hurried:
            hurried.setattr(client.sandbox.rate, "admit", lambda _: False)
            assert client.call(f"{LIST}/dewiki_namespace_0/download").status_code == 429  # which costs nothing
        assert client.call(f"{LIST}/dewiki_namespace_0/download").status_code == 307
        assert used(client, "snapshot") == 1
        client.sandbox.accounts.set_groups("sandbox", ["group_1"])
        user = client.sandbox.accounts.identify(client.token)
        limits = [client.sandbox.accounts.quotas.of(user, kind).limit for kind in ("snapshot", "chunk")]
        assert limits == [30, 1500]


class TestSchedule:
    def at(self, client, moment):
        client.sandbox.clock.set(moment)
        client.login()
        return client.call(ONE).json()

    def test_a_version_stands_until_the_next_export_has_ended(self, client):
        before = self.at(client, NOW)
        assert before["date_modified"].startswith("2025-03-09T0")
        started, ended = client.sandbox.world.snapshot_times("enwiki_namespace_0", NOW + DAY)
        assert started.date() == ended.date() == (NOW + timedelta(days=1)).date()
        assert timedelta(minutes=5) <= ended - started <= timedelta(minutes=95)
        assert self.at(client, ended - timedelta(microseconds=1)) == before
        after = self.at(client, ended)
        assert after["version"] != before["version"]
        assert after["date_modified"][:19] == f"{ended:%Y-%m-%dT%H:%M:%S}"
        assert self.at(client, NOW) == before
        # it holds the pages as the export started
        started, _ = client.sandbox.world.snapshot_times("enwiki_namespace_0", NOW)
        assert before["version"] == client.sandbox.world.snapshot("enwiki_namespace_0", started).version

    def test_free_accounts_see_the_copy_of_the_first_of_the_month_some_time_after_the_export(self, client):
        paid = client.call(ONE).json()
        client.sandbox.accounts.set_groups("sandbox", ["group_1"])
        free = client.call(ONE).json()
        assert free["date_modified"].startswith("2025-03-01T")
        assert free.keys() == paid.keys()
        assert free["version"] != paid["version"]
        for path in (ONE, f"{CHUNKS}/0"):
            answer = client.call(f"{path}/download", allow_redirects=True)
            assert md5(answer.content) == client.call(path).json()["version"]
            assert "_group_1.tar.gz" in answer.url
        assert client.call(LIST).json()[0] == free
        assert client.call(f"{CHUNKS}/0").json() in client.call(CHUNKS).json()
        client.sandbox.accounts.set_groups("sandbox", ["group_1", "group_2"])
        assert client.call(ONE).json() == paid
        client.sandbox.accounts.set_groups("sandbox", ["group_1"])
        _, ended = client.sandbox.world.snapshot_times("enwiki_namespace_0", datetime(2025, 4, 1, tzinfo=UTC))
        for waited, renewed in ((29, "2025-03-01"), (30, "2025-04-01")):
            assert self.at(client, ended + timedelta(minutes=waited))["date_modified"].startswith(renewed)


class TestOutOfTurn:
    def test_a_new_version_at_once_with_the_pages_of_now(self, client):
        before = client.call(ONE).json()
        other = client.call(f"{LIST}/frwiki_namespace_0").json()
        client.sandbox.exports.export("enwiki_namespace_0")
        after = client.call(ONE).json()
        assert after["version"] != before["version"]
        assert after["date_modified"] > before["date_modified"]
        assert client.call(f"{LIST}/frwiki_namespace_0").json() == other
        assert after["version"] == client.sandbox.world.snapshot("enwiki_namespace_0", NOW, NOW, 1).version
        client.sandbox.exports.export("enwiki_namespace_0")
        again = client.call(ONE).json()
        assert again["version"] not in {before["version"], after["version"]}
        assert again["date_modified"].rstrip("Z") > after["date_modified"].rstrip("Z")
        client.sandbox.clock.set(NOW - timedelta(seconds=1))
        assert client.call(ONE).json() == before
        client.sandbox.clock.set(NOW)
        client.sandbox.exports.clear()
        assert client.call(ONE).json() == before
        for _ in range(2):
            client.sandbox.exports.export("enwiki_namespace_0")
            client.call(ONE)
        folder = next((client.sandbox.settings.state / "snapshots").glob("*/*/enwiki_namespace_0"))
        assert 0 < len(list(folder.iterdir())) <= 3

    def test_it_stands_until_the_next_of_the_schedule_and_free_accounts_see_it_only_when_told(self, client):
        client.sandbox.exports.export("enwiki_namespace_0")
        extra = client.call(ONE).json()
        client.sandbox.accounts.set_groups("sandbox", ["group_1"])
        before = client.call(ONE).json()
        assert before["date_modified"].startswith("2025-03-01T")
        client.sandbox.exports.export("enwiki_namespace_0", free=True)
        copied = client.call(ONE).json()["version"]
        client.sandbox.accounts.set_groups("sandbox", ["group_3"])
        assert client.call(ONE).json()["version"] == copied not in {before["version"], extra["version"]}
        client.sandbox.clock.advance(timedelta(days=1))
        client.login()
        assert client.call(ONE).json()["date_modified"] > extra["date_modified"]
        assert client.call(ONE).json()["date_modified"].startswith("2025-03-10T0")

    def test_half_way_between_two_chunks(self, client):
        versions = {record["identifier"]: record["version"] for record in client.call(CHUNKS).json()}
        first, second, third = list(versions)[:3]
        early = client.signed(f"{CHUNKS}/{third}/download")
        client.sandbox.exports.export("enwiki_namespace_0", after_downloads=1)
        client.sandbox.exports.clear()
        wanted = {"identifier": "enwiki_namespace_0", "after_downloads": 3}
        for free in (False, True):
            assert client.call("/sandbox/snapshots", "POST", json=wanted | {"free": free}).status_code == 200
        part = client.fetch(early, Range="bytes=0-99")
        assert [client.fetch(early, Range=span).status_code for span in ("bytes=9-99", "bytes=99999999-")] == [206, 416]
        # the rest of a file completes it
        assert client.fetch(client.signed(f"{CHUNKS}/{first}/download"), Range="bytes=100-").status_code == 206
        for name in (first, second):
            assert client.call(ONE).json()["chunks"] == list(versions)
            content = client.call(f"{CHUNKS}/{name}/download", allow_redirects=True).content
            assert md5(content) == versions[name]
        assert client.call(f"{CHUNKS}/{third}").json()["version"] != versions[third]
        assert not any(client.sandbox.exports._armed.values()), "both exports have begun"
        assert client.sandbox.exports.turn("enwiki_namespace_0", free=True).started == NOW
        # the signed URL of before opens what lies there now
        now = client.fetch(early, Range="bytes=100-", If_Range=part.headers["ETag"])
        assert now.status_code == 200
        assert md5(now.content) == client.call(f"{CHUNKS}/{third}").json()["version"]

    def test_the_controls_over_http(self, client):
        told = client.call("/sandbox/snapshots").json()
        for row, is_free in zip(told, (False, True), strict=False):
            turn = client.sandbox.exports.turn("enwiki_namespace_0", free=is_free)
            times = {"started": turn.started.isoformat(), "ended": turn.ended.isoformat()}
            assert row == {"identifier": "enwiki_namespace_0", "free": is_free} | times
        areas = (None, "wikidata", "structured-contents")
        articles, wikidata, parts = ({one["identifier"] for one in told if one.get("area") == name} for name in areas)
        assert (len(told), len(articles)) == (16, 4)
        assert wikidata == {"wikidatawiki_namespace_0", "wikidatawiki_namespace_120"}
        assert parts == {"enwiki_namespace_0", "frwiki_namespace_0"}
        before = client.call(ONE).json()
        for more in ({}, {"free": True}):
            told = client.call("/sandbox/snapshots", "POST", json={"identifier": "enwiki_namespace_0"} | more).json()
            assert [turn["started"] == NOW.isoformat() for turn in told[:2]] == [True, bool(more)]
        assert client.call(ONE).json() != before
        client.call("/sandbox/snapshots", "DELETE")
        assert client.call(ONE).json() == before
        structured = f"{LIST}/structured-contents/enwiki_namespace_0"
        other = client.call(structured).json()
        wanted = {"identifier": "enwiki_namespace_0", "area": "structured-contents"}
        assert client.call("/sandbox/snapshots", "POST", json=wanted).status_code == 200
        assert client.call(structured).json() != other
        assert client.call(ONE).json() == before
        assert client.call("/sandbox/snapshots", "POST", json=wanted | {"area": "none"}).status_code == 422
        client.call("/sandbox/snapshots", "DELETE")
        assert client.call(structured).json() == other
        answer = client.call("/sandbox/snapshots", "POST", json={"identifier": "dewiki_namespace_0"})
        assert answer.status_code == 422
        assert "'dewiki_namespace_0'; the snapshots are enwiki_namespace_0, enwiki" in answer.json()["message"]
        assert client.call("/sandbox/snapshots", "POST", json={}).status_code == 422


@pytest.mark.parametrize("hour", range(24))
def test_the_newest_hours_follow_the_snapshots_of_a_sandbox_that_was_just_made(tmp_path, hour):
    for minute in (0, 3, 12, 59):
        now, state = NOW.replace(hour=hour, minute=minute), tmp_path / str(minute)
        chosen = snapshot_hour(state, now)
        world = World(Settings(state=state, seed=hour, snapshot_hour=chosen))
        exports, newest = Exports(world, Clock(now)), newest_hour(world, now)
        for identifier in exports.identifiers():
            turn = exports.turn(identifier, free=False)
            assert newest - timedelta(hours=2) + timedelta(minutes=15) <= turn.started < turn.ended <= now
        assert snapshot_hour(state, now + timedelta(hours=5)) == chosen


def test_archives_are_prepared_in_order_and_only_once_and_not_on_a_full_disk(tmp_path, monkeypatch):
    world = ArchivedWorld(Settings(state=tmp_path, projects=("enwiki",), namespaces=(0,), entities=0, prepare=2))
    name, clock, made, looks, steps = "enwiki_namespace_0", Clock(NOW), [], [], []
    exports = {area: Exports(one, clock) for area, one in (("", world), (STRUCTURED, world.structured))}
    disk = SimpleNamespace(free=2_000_000_000)

    def worker(_, nice):
        return SimpleNamespace(work=lambda task: made.append((nice, task)), close=bool)

    short_names = {"_POLL_SECONDS": 0.01, "_PATIENCE_SECONDS": 0.01, "_MOST_WORKERS": 1, "_Worker": worker}
    for short, value in short_names.items():
        monkeypatch.setattr(preparation, short, value)
    monkeypatch.setattr(preparation.shutil, "disk_usage", lambda _: looks.append(1) or disk)
    monkeypatch.setattr("tests.unit.sandbox.conftest.BOUND_SECONDS", 60)  # nothing real is made
    # structured contents fail
    monkeypatch.setattr(Task, "is_made", lambda task, _: task in [one for _, one in made] and not task.area)
    started = preparation.Preparation(world._settings, world, exports, clock)
    for kind in ("archives", "snapshots", "structured"):
        (tmp_path / kind / "x/x/x/of-a-killed-process.part").mkdir(parents=True)
    started.begin(bool, lambda *_: None)
    assert not [*tmp_path.rglob("*.part")]
    wait_until(lambda: len(made) >= 6)
    disk.free, next_hour = 1_999_999_999, NOW.replace(minute=0)
    paid, free = (exports[""].turn(name, free=one) for one in (False, True))
    clock.set(world.hour_ready_at(next_hour) - timedelta(minutes=20))
    before = len(looks)
    wait_until(lambda: len(looks) > before + 2 or len(made) > 6)
    assert len(made) == 6
    disk.free = 2_000_000_000
    wait_until(lambda: len(made) >= 7)
    started._make([Task.of(STRUCTURED, name, paid)] * 2, bool, lambda *step: steps.append(step))
    started.close()
    assert steps == [(0, 1), (1, 1)]
    hours = [Task("enwiki", next_hour - timedelta(hours=back)) for back in range(3)]
    early = [hours[1], Task.of("", name, paid), Task.of("", name, free), hours[2]]
    later = [Task.of(STRUCTURED, name, paid), Task.of(STRUCTURED, name, free), hours[0]]
    assert made == [*((5, task) for task in early), *((19, task) for task in later), (5, later[0])]
    # a start does not wait for what a full disk cannot hold
    held, turns = threading.Event(), iter([False] * 50)
    monkeypatch.setattr(preparation, "_Worker", lambda *_: SimpleNamespace(work=lambda _: held.wait(), close=held.set))
    disk.free, full = 0, preparation.Preparation(world._settings, world, exports, Clock(NOW + timedelta(hours=9)))
    full.begin(lambda: next(turns), lambda *_: None)
    waiting = len(full._under_way)
    full.close()
    assert waiting == 1
