"""Downloads against a real server: one request to the service, resumed, verified, landed whole or not at all."""

import datetime as dt
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from resources import files
from resources.enterprise import Limits, Sidecar, errors, models
from resources.enterprise.download.downloader import Transfer
from resources.enterprise.download.object_reader import WORTH
from resources.enterprise.download.partial import Part
from resources.enterprise.http.transport import Answer
from tests.unit.enterprise.conftest import QUICK
from tests.unit.enterprise.loopback import Reply, html_reply

NAME = "enwiki_namespace_0"
PATH = f"/v2/batches/2026-11-01/05/{NAME}"


@pytest.fixture
def target(tmp_path, batch):
    return tmp_path / "archive" / "hour=05" / f"{NAME}.{batch.version[:8]}.tar.gz"


def names(target):
    return sorted(p.name for p in target.parent.iterdir())


def only_landed(path):
    assert names(path) == [path.name, path.name + ".json"]
    assert not [one for one in Path("/proc/self/fd").iterdir() if ".part" in str(one.resolve())]


def resolves(fake):
    return len(fake.api.seen(PATH + "/download"))


def ranges_asked(fake):
    return [r.headers.get("range") for r in fake.store.requests]


def test_a_small_file_is_one_request_to_the_service_and_one_to_the_store(
    client, fake, batch, target, hour, content, clock, monkeypatch, tmp_path
):
    fake.api.now = lambda: clock.now - dt.timedelta(hours=1)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password FromNetrc99\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen = []
    done = client.hours.download(hour, batch, target, seen.append)
    assert target.read_bytes() == content
    assert (done.path, done.identifier, done.version) == (target, NAME, batch.version)
    assert (done.size_bytes, done.unit_count, done.resumed_bytes, done.fetched) == (len(content), 1, 0, True)
    assert resolves(fake) == 1
    assert len(fake.store.requests) == 1
    assert (seen[0], sum(seen)) == (0, len(content))
    only_landed(target)
    assert Sidecar.read(target) == Sidecar(NAME, batch.version, len(content), PATH + "/download", clock.now)
    assert "Signature" not in Sidecar.path(target).read_text()
    assert all("authorization" not in r.headers for r in fake.store.requests)
    assert fake.store.requests[0].headers["accept-encoding"] == "identity"
    assert fake.api.seen(PATH + "/download")[0].headers["authorization"].startswith("Bearer eyJACCESS")


def test_what_is_present_is_not_fetched_again_and_what_is_damaged_is(client, fake, batch, target, hour, content):
    client.hours.download(hour, batch, target)
    before = len(fake.api.requests) + len(fake.store.requests)
    again = client.hours.download(hour, batch, target)
    assert (again.fetched, again.unit_count, again.size_bytes) == (False, 0, target.stat().st_size)
    Sidecar.path(target).unlink()
    assert not client.hours.download(hour, batch, target).fetched
    assert len(fake.api.requests) + len(fake.store.requests) == before
    assert files.md5_of(target) == Sidecar.read(target).version
    for size in (1000, len(content) + 1):
        os.truncate(target, size)
        assert client.hours.download(hour, batch, target).fetched
        assert target.read_bytes() == content
    target.write_bytes(b"x" * len(content))
    Sidecar.path(target).unlink()
    assert client.hours.download(hour, batch, target).fetched
    assert target.read_bytes() == content
    only_landed(target)


def odd(*replies, cuts=(1000,), ranges=True, chunked=False, then=lambda _: None):
    """The object store breaks off at these places, and then answers so, before it is honest again."""

    def prepare(fake):
        fake.ranges = ranges
        fake.cut(*cuts, chunked=chunked, then=lambda: then(fake))
        fake.script("/objects/*", *replies)

    return prepare


CONTENT = random.Random(7).randbytes(400_000)  # as of the fixture
HEALING = [Reply(503, b"<Error/>"), Reply(500), Reply(drop=True)]
PARTS = [{}, *({"Content-Range": f"bytes 1000-{last}/400000"} for last in (999, 400_000))]
TAIL = Reply(206, CONTENT[1000:3000], {"Content-Range": "bytes 1000-2999/400000"})


@pytest.mark.parametrize(
    ("prepare", "asked", "counts"),
    [
        (odd(cuts=(150_000,)), ["bytes=150000-"], (1, 1)),
        (odd(cuts=(0,)), [None], (1, 1)),
        (odd(cuts=(1, 2, 3)), ["bytes=1-", "bytes=3-", "bytes=6-"], (1, 1)),
        (odd(cuts=(399_999,)), ["bytes=399999-"], (1, 1)),
        (odd(cuts=(70_000,), chunked=True), ["bytes=70000-"], (1, 1)),
        (odd(cuts=(70_000,), ranges=False), ["bytes=70000-"], (1, 1)),
        (odd(TAIL), ["bytes=1000-", "bytes=3000-"], (1, 1)),
        (odd(cuts=(5000,), then=lambda fake: fake.signatures.clear()), ["bytes=5000-"] * 2, (2, 2)),
        *((odd(*[one] * 2, cuts=()), [None] * 2, (1, 1)) for one in HEALING),
        (odd(Reply(200, CONTENT, {"ETag": '"a"'}, chunked=True), cuts=()), [], (1, 1)),  # ends with its last chunk
        (odd(Reply(200, CONTENT, {"Content-Length": "500000"}, cut=400_000), cuts=()), ["bytes=400000-", None], (2, 2)),
        # does not say which part it is, or one that cannot be
        *((odd(Reply(206, b"?" * 399_000, part)), ["bytes=1000-"] * 2, (1, 1)) for part in PARTS),
    ],
)
def test_a_body_that_breaks_off_goes_on_where_it_stopped_and_nothing_odd_is_mixed_in(
    client, fake, batch, target, hour, prepare, asked, counts
):
    prepare(fake)
    done = client.hours.download(hour, batch, target)
    assert target.read_bytes() == CONTENT
    assert (done.unit_count, resolves(fake)) == counts
    assert ranges_asked(fake) == [None, *asked]
    only_landed(target)


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


def test_bytes_that_come_again_are_not_new_ones(client, fake, hour, target):
    batch = models.Batch.model_validate(fake.add(NAME, bytes(3 * WORTH)))
    fake.ranges = False
    fake.cut(*[2 * WORTH, 0] * 4)
    with pytest.raises(errors.ServiceUnavailable, match="failed 4 times in a row"):
        client.hours.download(hour, batch, target)


@pytest.mark.parametrize("weak", [True, False])
def test_only_a_strong_etag_is_asked_to_match(client, fake, hour, batch, target, content, weak):
    etag = 'W/"a"' if weak else '"a"'
    rest = Reply(206, content[3000:], {"ETag": etag, "Content-Range": "bytes 3000-399999/400000"})
    fake.script("/objects/*", Reply(200, content, {"ETag": etag}, cut=1000), TAIL, rest)
    client.hours.download(hour, batch, target)
    assert [r.headers.get("if-range") for r in fake.store.requests[1:]] == [None if weak else '"a"'] * 2
    assert target.read_bytes() == content


@pytest.mark.parametrize(
    ("place", "etag"),
    [
        ("0-399999/400000", None), ("0-9/400000", None), ("999-399999/400000", None), ("1001-399999/400000", None),
        ("1000-399999/400001", None), ("1000-399999/400000", 'W/"another"'),
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


@pytest.mark.parametrize("cut", [None, 1000])
def test_a_file_replaced_meanwhile_is_taken_under_its_new_version(client, fake, batch, target, hour, cut, caplog):
    caplog.set_level("INFO")
    new = CONTENT[::-1]
    fake.cut(cut, then=lambda: fake.add(NAME, new))
    if cut is None:
        fake.add(NAME, new)
    done = client.hours.download(hour, batch, target)
    assert done.version == files.md5_of(done.path) != batch.version
    assert (done.path.name, done.path.read_bytes()) == (f"{NAME}.{done.version[:8]}.tar.gz", new)
    assert cut or resolves(fake) == 1  # the bytes fetched first were those of the new record
    only_landed(done.path)
    told = [f"The download of {NAME} was interrupted at byte 1000."] * (cut is not None)
    told.append(f"The service replaced {NAME} during its download.")
    assert caplog.messages[1:] == [*told, f"Fetched {NAME} (400000 bytes, {2 if cut else 1} signed URLs)."]
    fake.script("/objects/*", Reply(200, b"neither"))
    again = client.hours.download(hour, batch, target)  # is there already, which is known after a unit
    assert (again.path, again.fetched, again.unit_count) == (done.path, False, 1)


def test_an_object_that_is_not_there_is_not_found(client, fake, batch, target, hour, clock):
    fake.objects.clear()
    target.parent.mkdir(parents=True, exist_ok=True)
    Part.path_of(target).write_bytes(b"of an object that is gone")
    with pytest.raises(errors.NotFound, match="object store") as caught:
        client.hours.download(hour, batch, target)
    assert not isinstance(caught.value, errors.RetentionPassed)
    clock.advance(days=2)
    with pytest.raises(errors.RetentionPassed, match="two days"):
        client.hours.download(hour, batch, target)
    assert names(target) == []
    # nor is its record, when it is read again after wrong bytes
    fake.records.clear()
    fake.script("/objects/*", Reply(200, b"wrong"))
    fake.script("/v2/batches/2026-11-01/05", Reply(404, b'{"status":404,"message":"NoSuchKey"}'))
    with pytest.raises(errors.RetentionPassed):
        client.hours.download(hour, batch, target)
    assert names(target) == []


def test_an_empty_object_is_right_if_the_record_says_so(client, fake, hour, tmp_path):
    record = models.Batch.model_validate(fake.add("emptywiki_namespace_0", b""))
    done = client.hours.download(hour, record, tmp_path / "empty.tar.gz")
    assert (done.size_bytes, done.path.read_bytes()) == (0, b"")


def wrong(content):
    """The record has another version than the object, when it is read again as well."""
    return lambda fake: fake.add(NAME, content, version="0" * 32)


def scripted(path, *replies):
    return lambda fake: fake.script(path, *replies)


REFUSED = Reply(403, b"<Error><StringToSign>SIGNEDSECRET</StringToSign></Error>")
ODD_REDIRECTS = [
    (f"download URL of {NAME} for the hour 2026-11-01 05:00 UTC: .* with status 307 instead of", Reply(307)),
    ("status 200", Reply(200, b"bytes")),
    ("redirects to an invalid URL", Reply(307, b"", {"Location": "ftp://127.0.0.1/x"})),
    ("redirects to an invalid URL", Reply(307, b"", {"Location": "file:///etc/passwd"})),
]


@pytest.mark.parametrize(
    ("prepare", "kind", "words", "counts"),
    [
        (lambda fake: fake.store.close(), errors.UnreachableError, r"4 times in a row.*refused \(127.0.0.1\)", (1, 0)),
        (wrong(CONTENT), errors.IntegrityError, "The last of two downloads of", (2, 2)),
        (wrong(b""), errors.IntegrityError, rf"downloads of {NAME} did not .* record \({'0' * 32}\)", (2, 2)),
        (scripted("/objects/*", Reply(400), Reply(401)), errors.ServiceUnavailable, r"rejected .* \(401\)", (2, 2)),
        (scripted("/objects/*", *[REFUSED] * 4), errors.ServiceUnavailable, "rejected two new signed URLs", (2, 2)),
        (odd(cuts=[5000] * 10, then=lambda f: f.signatures.clear()), errors.ServiceUnavailable, "2 signed", (2, 4)),
        (odd(cuts=[1000] * 20, ranges=False), errors.ServiceUnavailable, "failed", (1, 4)),
        (scripted("/objects/*", *[Reply(503)] * 9), errors.ServiceUnavailable, r" error: .* status 503\.$", (1, 4)),
        *((scripted("*/download", one), errors.UnexpectedAnswer, words, (1, 0)) for words, one in ODD_REDIRECTS),
    ],
)
def test_a_download_that_cannot_be_completed_ends_with_a_sentence_and_lands_nothing(
    make_client, fake, batch, target, hour, prepare, kind, words, counts
):
    prepare(fake)
    batch = models.Batch.model_validate(fake.records[NAME])
    with pytest.raises(kind, match=words) as caught:
        make_client(limits=Limits(signed_urls=2)).hours.download(hour, batch, target)
    assert (resolves(fake), len(fake.store.requests)) == counts
    assert "SIGNED" not in str(caught.value)
    # what is kept goes on in the next run
    assert set(names(target)) <= {target.name + ".part"}


def test_a_redirect_from_an_encrypted_to_an_open_connection_is_refused(make_client):
    client = make_client(base_url="https://127.0.0.1:9")
    answer = Answer(307, b"", {"Location": "http://127.0.0.1:9/objects/x"}, 1)
    with pytest.raises(errors.UnexpectedAnswer, match="from https:// to http://"):
        client.lists._api._location(answer, PATH, "get it")


@pytest.mark.parametrize("status", [302, 303, 307, 308])
def test_a_relative_redirect_is_followed_without_the_token(client, fake, batch, target, hour, content, status):
    # a page of HTML instead of it is waited out
    fake.script(PATH + "/download", html_reply(200), Reply(status, b"", {"Location": "/objects/here"}))
    fake.script("/objects/here", Reply(200, content))
    assert client.hours.download(hour, batch, target).unit_count == 2
    assert target.read_bytes() == content
    assert "authorization" not in fake.api.seen("/objects/here")[0].headers


def test_a_folder_without_access_or_room_is_said(make_client, client, fake, batch, target, hour, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StateError, match="cannot be written"):
        client.hours.download(hour, batch, tmp_path / "file" / "x.tar.gz")
    usage = shutil.disk_usage(target.parent.parent.parent)
    told = f" for {target.name} in {target.parent} .400,000 more bytes are needed, but "
    for floor, free in ((0, "only 399,999 are free.*Free up"), (7, "400,006 are free, and 7 must stay free")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=399_999 + floor: usage._replace(free=free))
        with pytest.raises(errors.DiskFull, match=told + free):
            make_client(limits=Limits(keep_free_bytes=floor)).hours.download(hour, batch, target)
    assert names(target) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=400_007))
    assert make_client(limits=Limits(keep_free_bytes=7)).hours.download(hour, batch, target).fetched


def test_threads_that_want_the_same_file_fetch_it_once_and_wait_so_long(make_client, fake, batch, target, hour):
    client = make_client(limits=Limits(wait_seconds=0.05))
    with Part.held(target, wait_seconds=120), pytest.raises(errors.StateBusy, match="Another process"):
        client.hours.download(hour, batch, target)
    client = make_client()
    with ThreadPoolExecutor(4) as pool:
        fetched = [*pool.map(lambda _: client.hours.download(hour, batch, target).fetched, range(4))]
    assert sorted(fetched) == [False, False, False, True]
    assert resolves(fake) == 1
    only_landed(target)


def test_what_another_process_completed_meanwhile_leaves_no_part(client, batch, target, hour, content, monkeypatch):
    client.hours.download(hour, batch, target)
    Part.path_of(target).write_bytes(content[:9])
    looks, present = iter([None]), Transfer._present
    monkeypatch.setattr(Transfer, "_present", lambda transfer: next(looks, transfer) and present(transfer))
    assert not client.hours.download(hour, batch, target).fetched
    only_landed(target)


def test_retention_is_counted_from_the_hour(client, fake, hour, clock):
    clock.now = hour + dt.timedelta(hours=47, minutes=59)
    fake.script("/v2/batches/*", *[Reply(404, b'{"status":404,"message":"x"}')] * 2)
    with pytest.raises(errors.NotPublishedYet, match="not published the hour 2026-11-01 05:00 UTC yet"):
        client.hours.listing(hour.astimezone(dt.timezone(dt.timedelta(hours=-7))))
    clock.advance(minutes=1)
    with pytest.raises(errors.RetentionPassed, match="retains each hour for two days"):
        client.hours.listing(hour)
