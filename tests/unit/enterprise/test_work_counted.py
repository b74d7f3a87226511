"""What a digest or a retry would hide: bytes transferred, requests sent, and what was synced before what."""

import datetime as dt
import os
import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from resources.enterprise import Sidecar, errors, models
from resources.enterprise.download.object_reader import WORTH
from tests.unit.enterprise.conftest import QUICK
from tests.unit.enterprise.loopback import Reply, error_reply, html_reply

NAME = "enwiki_namespace_0"
PATH = f"/v2/batches/2026-11-01/05/{NAME}"
#: Documented and observed: the service's own 500, and the three of a load balancer.
HEALS = [500, 502, 503, 504]


@pytest.fixture
def target(tmp_path):
    return tmp_path / "archive" / f"{NAME}.tar.gz"


def ranges_asked(fake):
    return [r.headers.get("range") for r in fake.store.requests]


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", HEALS)
@pytest.mark.parametrize("path", ["/v2/codes", "/v1/login", "/v1/token-refresh", "/v1/get-user"])
def test_what_heals_is_asked_again_at_every_host_as_often_as_patience_says(client, fake, status, path):
    client.account.login()
    before = len(fake.api.seen(path))
    fake.script(path, error_reply(status, "no"), html_reply(status), Reply(drop=True))
    asked = {"/v2/codes": lambda: client.lists.reference("codes"), "/v1/login": client.account.login}
    asked |= {"/v1/token-refresh": client.account.refresh, "/v1/get-user": client.account.user}
    asked[path]()
    assert len(fake.api.seen(path)) == before + 4
    fake.script(path, *[error_reply(status, "no")] * 9)
    with pytest.raises(errors.ServiceUnavailable):
        asked[path]()
    assert len(fake.api.seen(path)) == before + 4 + 1 + QUICK.retries


@pytest.mark.parametrize("reply", [html_reply(200), Reply(200), Reply(drop=True), Reply(200, b"[      ]", cut=3)])
def test_a_broken_answer_is_asked_again(client, fake, reply):
    fake.script("/v2/codes", reply, reply)
    assert len(client.lists.reference("codes")) == 1
    assert len(fake.api.seen("/v2/codes")) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 408, 418, 422, 501, 505, 599])
def test_what_does_not_heal_by_itself_is_asked_once(client, fake, status):
    fake.script("/v2/codes", *[error_reply(status, "no")] * 9)
    with pytest.raises(errors.EnterpriseError):
        client.lists.reference("codes")
    assert len(fake.api.seen("/v2/codes")) == 1


# --- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("piece", "requests"), [(WORTH, 8), (WORTH - 1, 1 + QUICK.retries)])
def test_breaks_are_added_up_if_hardly_any_bytes_arrive_between_them(client, fake, hour, target, piece, requests):
    content = random.Random(9).randbytes(8 * WORTH)
    batch = models.Batch.model_validate(fake.add(NAME, content))
    fake.cut(*[piece] * 7)
    fails = pytest.raises(errors.ServiceUnavailable, match="failed 4 times in a row")
    with nullcontext() if piece == WORTH else fails:
        client.hours.download(hour, batch, target)
        assert target.read_bytes() == content
    assert ranges_asked(fake)[1:] == [f"bytes={n * piece}-" for n in range(1, requests)]


@pytest.mark.parametrize("weak", [True, False])
def test_only_a_strong_etag_is_asked_to_match(client, fake, hour, batch, target, content, weak):
    etag = 'W/"a"' if weak else '"a"'
    fake.script("/objects/*", Reply(200, content, {"ETag": etag}, cut=1000))
    fake.script(
        "/objects/*", lambda r: Reply(206, content[1000:], {"ETag": etag, "Content-Range": "bytes 1000-399999/400000"})
    )
    client.hours.download(hour, batch, target)
    assert fake.store.requests[1].headers.get("if-range") == (None if weak else '"a"')
    assert target.read_bytes() == content


@pytest.mark.parametrize(
    ("place", "etag"),
    [
        ("0-399999/400000", None), ("0-9/400000", None), ("999-399999/400000", None), ("1001-399999/400000", None),
        ("1000-399999/400001", None), ("1000-399999/400000", '"another"'),
    ],
)  # fmt: skip
def test_bytes_of_another_place_or_object_are_not_written(client, fake, hour, batch, target, content, place, etag):
    start = int(place.partition("-")[0])
    headers = {"Content-Range": f"bytes {place}"} | ({"ETag": etag} if etag else {})
    fake.etags = etag is not None
    fake.cut(1000)
    fake.script("/objects/*", Reply(206, content[start:], headers))
    seen = []
    client.hours.download(hour, batch, target, seen.append)
    assert target.read_bytes() == content
    assert ranges_asked(fake) == [None, "bytes=1000-", None]  # begun anew at once
    assert (sum(seen), seen[seen.index(1000) + 1]) == (len(content), 0)  # each byte counted once


@pytest.mark.parametrize("size", [20, 400_000, 500_000])
def test_a_part_of_other_bytes_is_fetched_whole_and_once(client, fake, hour, batch, target, content, size):
    """Another version under the same name, or a file whose last bytes were lost with the power."""
    target.parent.mkdir(parents=True)
    (target.parent / (target.name + ".part")).write_bytes(bytes(size))
    done = client.hours.download(hour, batch, target)
    assert ranges_asked(fake) == [f"bytes={size}-", None]
    assert (done.resumed_bytes, target.read_bytes()) == (0, content)


# --- what is durable ------------------------------------------------------------------------------------------------


class Disk:
    """What is synced and renamed, in order: files by their inode, folders by their path."""

    def __init__(self, monkeypatch):
        self.events = []
        self._fsync, self._replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)

    def fsync(self, descriptor):
        self.events.append(("sync", os.fstat(descriptor).st_ino))
        self._fsync(descriptor)

    def replace(self, source, target):
        self.events.append(("name", Path(source).stat().st_ino, Path(target)))
        self._replace(source, target)

    def names(self):
        """Names given to files that shall outlive a loss of power, in order; each synced before, its folder after."""
        found = []
        for place, event in enumerate(self.events):
            if event[0] == "name":
                _, inode, path = event
                assert ("sync", inode) in self.events[:place], f"{path.name} took its name before its bytes were safe"
                folder = ("sync", path.parent.stat().st_ino)
                following = self.events[place + 1 :]
                assert folder in following, f"the name {path.name} was not made safe"
                found.append(path.name)
        return found


@pytest.fixture
def disk(client, monkeypatch):
    client.account.login()
    return Disk(monkeypatch)


def test_a_download_is_safe_before_it_takes_its_name_and_behind_its_sidecar(client, disk, fake, hour, batch, target):
    client.hours.download(hour, batch, target)
    assert disk.names() == [target.name + ".json", target.name]
    # as is the sidecar of one that another process finished
    Sidecar.path(target).unlink()
    client.hours.download(hour, batch, target)
    assert disk.names() == [target.name + ".json", target.name, target.name + ".json"]


def test_a_list_is_safe_before_it_takes_its_name_and_behind_its_sidecar(client, disk, fake, hour, batch, tmp_path):
    client.lists.land(client.hours.listing(hour), tmp_path / "lists" / "batches.json")
    assert disk.names() == ["batches.json.json", "batches.json"]
    assert Sidecar.read(tmp_path / "lists" / "batches.json") is not None


def test_tokens_are_safe_before_they_take_their_name(client, disk, clock):
    clock.advance(days=2)
    client.lists.reference("codes")
    assert disk.names() == ["tokens.json"]
    assert client.account.status().access_expires_at == clock() + dt.timedelta(days=1)


def test_the_manifest_of_a_snapshot_comes_last_and_is_safe(client, disk, fake, tmp_path):
    fake.add_snapshot("frwiki_namespace_0", b"a" * 1000, b"b" * 1000)
    plan = client.snapshots.plan("frwiki_namespace_0", tmp_path / "snapshots")
    client.snapshots.download(plan, workers=1)
    names = disk.names()
    assert names[-1] == plan.manifest.name
    for piece in plan.files:
        assert names.index(piece.target.name + ".json") < names.index(piece.target.name)
