"""Answers that never end, in bytes or in time: what was taken of them is counted at the server."""

import gzip
import io
import shutil
import socket
import threading
import tracemalloc
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

from resources import files
from resources.enterprise import Limits, RetryPolicy, errors, models
from resources.enterprise.download import object_reader
from resources.enterprise.download.partial import Part
from resources.enterprise.http import bounds, transport
from tests.unit.enterprise.conftest import QUICK
from tests.unit.enterprise.loopback import Reply, Sender, error_reply

NAME = "enwiki_namespace_0"
#: Beyond what was taken, a server can be rid of what fits into the buffers of two sockets.
BUFFERS = 8 << 20
SMALL = Limits(list_bytes=1 << 20, record_bytes=1 << 20)
HURRIED = Limits(answer_seconds=0.5)


def head(status=200, *headers):
    return "\r\n".join([f"HTTP/1.1 {status} X", *headers, "", ""]).encode()


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"


@pytest.fixture
def target(tmp_path):
    return tmp_path / "archive" / "a.tar.gz"


@pytest.mark.parametrize(
    ("headers", "piece"), [((), b" " * 65536), (("Transfer-Encoding: chunked",), CHUNK)], ids=["unframed", "chunked"]
)
@pytest.mark.parametrize("path", ["/v2/codes", "/v1/login", "/v1/get-user"])
def test_an_answer_without_an_end_is_given_up(make_client, fake, path, headers, piece):
    sender = Sender(head(200, *headers), piece)
    fake.script(path, *[Reply(raw=sender)] * 9)
    client = make_client(limits=SMALL)
    ask = {"/v1/login": client.account.login, "/v1/get-user": client.account.user}
    ask["/v2/codes"] = lambda: client.lists.reference("codes")
    with pytest.raises(errors.UnexpectedAnswer, match="exceeds 1,048,576 bytes"):
        ask[path]()
    assert sender.left.wait(120)
    assert sender.calls == 1
    assert sender.sent < SMALL.list_bytes + BUFFERS


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_refusal_without_an_end_is_a_refusal(make_client, fake, status):
    sender = Sender(head(status), b"x" * 65536, most=64 << 20)
    fake.script("/v2/codes", *[Reply(raw=sender)] * 9)
    client = make_client(retry=replace(QUICK, retries=0))
    with pytest.raises(errors.EnterpriseError) as caught:
        client.lists.reference("codes")
    assert caught.value.status == status
    assert client._transport.limits == Limits()
    assert RetryPolicy().read_timeout < Limits().answer_seconds
    assert Limits().slow_seconds <= 300
    assert (Limits().largest(10**8), Limits().largest(None)) == (11 * 10**7 + (16 << 20), 1 << 30)
    assert sender.left.wait(120)
    assert sender.sent < Limits().refusal_bytes + BUFFERS < Limits().list_bytes


@cache
def blanks(layers):
    return b" " * (24 << 20) if layers == 0 else gzip.compress(blanks(layers - 1), 1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_blanks_that_were_compressed_to_nothing_are_given_up(make_client, fake, layers):
    encoding = ", ".join(["gzip"] * layers)
    fake.script("/v2/codes", *[Reply(200, blanks(layers), {"Content-Encoding": encoding})] * 9)
    client = make_client(limits=SMALL)
    client.account.login()
    tracemalloc.start()
    with pytest.raises(errors.UnexpectedAnswer, match="the response exceeds"):
        client.lists.reference("codes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * SMALL.list_bytes


def test_values_that_would_need_many_times_their_bytes_are_not_parsed(client, fake):
    crowded = b'[{"identifier": "x", "more": [%s[]]}]' % (b"[]," * (files.VALUES_MAX // 2))
    fake.script("/v2/articles/Earth", Reply(200, gzip.compress(crowded), {"Content-Encoding": "gzip"}))
    client.account.login()
    tracemalloc.start()
    with pytest.raises(
        errors.UnexpectedAnswer, match="look up 'Earth': the response contains more than 500,000 values"
    ):
        client.lookups.articles("Earth")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(crowded)


@pytest.mark.parametrize(
    ("opening", "piece"),
    [
        (b"HTTP/1.1 200 O", b"K"), (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"), (head(200, "Content-Length: 1000000"), b" "),
        (head(200, "Transfer-Encoding: chunked") + b"5;", b"x"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (head(401), b" "),
    ],
)  # fmt: skip
def test_a_byte_now_and_then_is_not_waited_for(make_client, fake, opening, piece):
    """The read timeout is never met here: only the deadline of the whole answer ends it."""
    sender = Sender(opening, piece, pause=0.02)
    fake.script("/v2/codes", *[Reply(raw=sender)] * 30)
    make_client().account.login()  # which has more time
    client = make_client(limits=HURRIED)
    client.close()  # later requests have the same limits
    with pytest.raises(errors.ServiceUnavailable, match=r"did not end in time.*0 s"):
        client.lists.reference("codes")
    assert sender.left.wait(120)


def test_the_time_of_an_answer_includes_its_repetitions(make_client):
    """Each attempt ends by its read timeout, and all together by the deadline."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        retry = replace(QUICK, retries=1000, read_timeout=0.1)
        client = make_client(auth_url=url, base_url=url, retry=retry, limits=HURRIED)
        with pytest.raises(errors.ServiceUnavailable, match="did not end in time"):
            client.account.login()


@pytest.fixture
def seconds(monkeypatch):
    """The seconds that deadlines are measured with, moved by a test."""
    moved = SimpleNamespace(seconds=0.0, monotonic=lambda: moved.seconds)
    monkeypatch.setattr(bounds, "time", moved)
    return moved


def test_time_spent_on_a_login_is_not_that_of_the_answer(client, fake, clock, seconds):
    """Two requests of 200 s each come before the one that is asked for, and each may take 300 s."""
    client.account.login()
    clock.advance(days=2)
    fake.revoke()

    def late(_):
        seconds.seconds += 200

    fake.script("/v1/token-refresh", late)
    fake.script("/v1/login", late)
    assert len(client.lists.reference("codes")) == 1
    assert seconds.seconds == 400 > Limits().answer_seconds
    fake.script("/v2/codes", lambda request: late(request) or error_reply(401, "Jwt is expired"))
    fake.script("/v1/token-refresh", late)
    assert len(client.lists.reference("codes")) == 1
    assert seconds.seconds == 800


def test_a_pause_is_as_long_as_asked_and_not_part_of_the_answers_time(make_client, fake, seconds, monkeypatch):
    def sleep(duration):
        seconds.seconds += duration

    seconds.sleep = sleep
    monkeypatch.setattr(transport, "time", seconds)
    client = make_client(retry=replace(QUICK, longest_wait=400.0))
    client.account.login()
    client.lists._api._pace.turn = lambda: sleep(400) or 0.0  # before each of four requests
    fake.script("/v2/codes", *[Reply(503, b"", {"Retry-After": "250"})] * 2, Reply(drop=True))
    assert len(client.lists.reference("codes")) == 1
    assert 2101 > seconds.seconds > 2100 > Limits().answer_seconds


@pytest.mark.parametrize("size", [{"value": 0.3}, {"value": 0}, None, {}, {"value": 7, "unit_text": "parsecs"}])
def test_an_archive_much_larger_than_its_record_says_is_given_up(make_client, fake, hour, batch, target, content, size):
    fake.records[NAME]["size"] = size
    wrong = models.Batch.model_validate({k: v for k, v in fake.records[NAME].items() if v is not None})
    sender, limits = Sender(head(200), b"x" * 65536), Limits(margin_bytes=1 << 20, unstated_bytes=2 << 20)
    fake.script("/objects/*", *[Reply(raw=sender)] * 2)
    client, largest = make_client(limits=limits), limits.largest(wrong.stated_bytes)
    told = f"states {'no size' if wrong.stated_bytes is None else 'about'}.* exceeded the limit of {largest:,} bytes"
    with pytest.raises(errors.IntegrityError, match=told):
        client.hours.download(hour, wrong, target)
    assert sender.calls == 2
    assert sender.sent < 2 * (largest + BUFFERS)
    assert list(target.parent.iterdir()) == []
    # a length beyond it is refused before the first byte
    seen, lengths = [], [{"Content-Length": length} for length in (str(1 << 40), "9" * 18)]
    first, second = (Reply(200, b"x" * 100_000, headers) for headers in lengths)
    for last, told in ((second, "the last .* exceeded the limit"), (Reply(200, b"wrong"), "did not match the MD5")):
        fake.script("/objects/*", first, last)
        with pytest.raises(errors.IntegrityError, match=told):
            client.hours.download(hour, wrong, target, seen.append)
    assert seen == [0, 5]  # of the last one
    assert client.hours.download(hour, wrong, target).size_bytes == len(content)


def test_a_download_that_crawls_after_its_first_bytes_ends(make_client, fake, hour, batch, target, content):
    begun = head(200, f"Content-Length: {len(content)}") + b"x" * 1000
    fake.script("/objects/*", *[Reply(raw=Sender(begun, b"x", most=1000, pause=0.02))] * 30)
    client = make_client(limits=Limits(slow_bytes=1000, slow_seconds=0.2))
    told = r"failed 4 times in a row.*(arrived in 0 s|did not end in time)"
    with pytest.raises(errors.ServiceUnavailable, match=told):
        client.hours.download(hour, batch, target)
    assert len(fake.store.requests) == 4


def test_a_slow_download_that_goes_on_is_not_disturbed(make_client, fake, hour, batch, target, content, seconds):
    """Longer than the deadline as a whole, and within it from piece to piece."""
    taken = threading.Semaphore(0)

    def steadily(connection):
        connection.sendall(head(200, f"Content-Length: {len(content)}"))
        for start in range(0, len(content), 50_000):
            seconds.seconds += 200
            connection.sendall(content[start : start + 50_000])
            while sum(progress) < start + 50_000:
                taken.acquire(timeout=120)

    progress = [0]

    def told(count):
        progress[0] += count
        taken.release()

    fake.script("/objects/*", Reply(raw=steadily))
    client = make_client(limits=Limits(slow_bytes=10_000, slow_seconds=300), retry=replace(QUICK, retries=0))
    client.hours.download(hour, batch, target, told)
    assert seconds.seconds == 1600
    assert len(fake.store.requests) == 1
    assert target.read_bytes() == content


def test_a_slow_consumer_is_waited_for(make_client, fake, batch, content, seconds, monkeypatch):
    class Slow(io.BytesIO):
        def write(self, data):
            seconds.seconds += 400
            return super().write(data)

    monkeypatch.setattr(object_reader, "time", seconds)
    client = make_client(limits=Limits(slow_bytes=1 << 30, slow_seconds=300), retry=replace(QUICK, retries=0))
    client.files.download(f"/v2/batches/2026-11-01/05/{NAME}", target := Slow())
    assert target.getvalue() == content
    assert seconds.seconds > 400


def test_the_floor_of_free_disk_holds_before_a_download_and_on_the_way(make_client, fake, hour, target, monkeypatch):
    free = shutil.disk_usage(target.parent.parent).free
    batch = models.Batch.model_validate(fake.add(NAME, bytes(20 << 20)))
    client = make_client(limits=Limits(keep_free_bytes=2 * free))
    with pytest.raises(errors.DiskFull, match=rf"20,971,520 more bytes are needed, .* and {2 * free:,} must stay free"):
        client.hours.download(hour, batch, target)
    assert list(target.parent.iterdir()) == []
    client = make_client(limits=Limits(keep_free_bytes=1000))
    real, written = shutil.disk_usage(target.parent.parent), []
    # a disk that somebody else fills meanwhile
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=999 if sum(written) else 100 << 20))
    told = rf"1,000 must stay free.* kept in {target.name}\.part\. Free up disk space, and try again to resume the"
    with pytest.raises(errors.DiskFull, match=told):
        client.hours.download(hour, batch, target, written.append)
    assert sum(written) <= 17 << 20
    monkeypatch.undo()
    assert client.hours.download(hour, batch, target).resumed_bytes >= 16 << 20
    # one that has room for exactly the bytes that are missing
    there = Part.path_of(target := target.with_name("b.tar.gz"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=(20 << 20) + 1000 - there.stat().st_size))
    assert client.hours.download(hour, batch, target).fetched
