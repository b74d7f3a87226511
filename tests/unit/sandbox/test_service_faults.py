"""Faults: each kind on a real answer, how they are counted and chosen, and what damage leaves of an archive."""

import gzip
import hashlib
import json
import time
import zlib
from pathlib import Path
from unittest.mock import ANY

import pytest
import requests

from resources.sandbox import faults
from resources.sandbox.store import objects
from tests.unit.sandbox.conftest import lines_of, members_of, wait_until


class TestAnswers:
    def test_a_status_hits_as_often_as_it_should_on_a_method_and_a_path(self, client):
        fault = client.sandbox.faults.add(path="/v2/proj*", kind="status", status=500, count=2)
        answers = [client.call(path) for path in ("/v2/projects", "/v2/projects/", "/v2/projects/")]
        assert [answer.status_code for answer in answers] == [500, 500, 200]
        assert answers[0].text == '{"status":500,"message":"Internal Server Error"}\n'
        assert (fault.hits, fault.remaining) == (2, 0)
        assert [seen.status for seen in client.sandbox.requests] == [500, 500, 200]
        wrong = {"status": 401, "message": "token is expired"}
        client.sandbox.faults.add(path="/v2/codes", method="post", kind="status", count=None, **wrong)
        assert client.call("/v2/codes").status_code == 200
        assert client.call("/v2/languages", "POST").status_code == 200
        assert [client.call(f"/v2/codes{end}", "POST").json() for end in ("", "", "/")] == [wrong] * 3
        client.sandbox.faults.clear()
        assert client.call("/v2/codes", "POST").status_code == 200
        client.sandbox.faults.add()
        answer = client.call("/v2/codes", headers={"Accept": "application/x-ndjson"})
        assert (answer.status_code, answer.headers["Content-Type"]) == (500, "application/x-ndjson; charset=utf-8")

    def test_balancers_answer_with_a_page_and_so_may_the_service(self, client):
        for status in (502, 503, 504):
            client.sandbox.faults.add(kind="status", status=status, retry_after=0)
            answer = client.call("/v2/codes")
            assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
            assert f"<h1>{status} " in answer.text
            assert answer.headers["Retry-After"] == "0"
        client.sandbox.faults.add(kind="status", status=503, html=False, retry_after="soon")
        answer = client.call("/v2/codes")
        assert (answer.json()["status"], answer.headers["Retry-After"]) == (503, "soon")
        client.sandbox.faults.add(path="/v2/codes", kind="html")
        answer = client.call("/v2/codes")
        assert answer.status_code == 200
        assert answer.text.startswith("<html>")

    def test_a_delay_goes_with_another_fault(self, client):
        for seconds in (0.05, 0.1):
            client.sandbox.faults.add(kind="delay", seconds=seconds)
        assert client.sandbox.faults.add(path="/v2/languages", kind="delay").details == {"seconds": 1.0}
        client.sandbox.faults.add(kind="status", status=500)
        client.sandbox.faults.add(kind="status", status=429)
        begin = time.perf_counter()
        assert client.call("/v2/codes").status_code == 500
        assert time.perf_counter() - begin >= 0.15
        assert (client.call("/v2/codes").status_code, client.call("/v2/codes").status_code) == (429, 200)

    def test_a_login_a_signature_a_list_and_the_object_store_can_fail_as_well(self, client):
        faults = client.sandbox.faults
        faults.add(path="/v1/login", kind="status", status=429)
        assert client.auth("login", {}).status_code == 429
        client.login()
        faults.add(path="*/download", kind="expired")
        assert client.fetch(client.signed(client.DOWNLOAD)).status_code == 403
        assert client.fetch(client.signed(client.DOWNLOAD)).status_code == 200
        faults.add(path=client.HOUR, kind="cut", where="api", after=30)
        with pytest.raises(requests.exceptions.ChunkedEncodingError, match="30 bytes read"):
            client.call(client.HOUR)
        assert len(client.call(client.HOUR).json()) == 2
        faults.add(path="*", kind="status", status=503, where="objects")
        assert client.fetch(client.signed(client.DOWNLOAD)).status_code == 503


class TestBodies:
    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch):
        monkeypatch.setattr(objects, "_CHUNK_BYTES", 1_000)

    def test_cut(self, client):
        faults = client.sandbox.faults
        faults.add(path="/v2/batches/*", kind="cut", after=10)
        location, size = client.signed(client.DOWNLOAD), client.archive.size
        with pytest.raises(requests.exceptions.ChunkedEncodingError, match="10 bytes read, 90 more"):
            client.fetch(location, Range="bytes=100-199")
        for fault in ({"after": 123}, {}):
            faults.add(path="/v2/batches/*", kind="cut", **fault)
        location = client.signed(client.DOWNLOAD)
        for expected in (123, size // 2):
            with pytest.raises(requests.exceptions.ChunkedEncodingError, match=f"{expected} bytes read"):
                client.fetch(location)
        assert len(client.fetch(location).content) == size
        faults.add(path="/v2/batches/*", kind="cut", after=10_000_000)  # beyond the end
        assert len(client.fetch(client.signed(client.DOWNLOAD)).content) == size
        wait_until(lambda: ".tar.gz" not in str([fd.resolve() for fd in Path("/proc/self/fd").iterdir()]))

    def test_a_length_that_promises_more_or_less(self, client):
        client.sandbox.faults.add(path="*", kind="length", delta=5)
        with pytest.raises(requests.exceptions.ChunkedEncodingError, match="5 more expected"):
            client.fetch(client.signed(client.DOWNLOAD))
        client.sandbox.faults.add(path="*", kind="length", delta=-5)
        answer = client.fetch(client.signed(client.DOWNLOAD))
        assert answer.content == client.archive.path.read_bytes()[:-5]
        assert answer.headers["Content-Length"] == str(client.archive.size - 5)

    def test_flipped_bytes(self, client):
        original = client.archive.path.read_bytes()
        client.sandbox.faults.add(path="*", kind="flip", at=1_010, bytes=2)
        client.sandbox.faults.add(path="*", kind="flip")
        location = client.signed(client.DOWNLOAD)
        flipped = client.fetch(location).content
        assert [i for i in range(len(original)) if flipped[i] != original[i]] == [1_010, 1_011]
        half = client.fetch(location, Range=f"bytes={len(original) // 2 - 3}-").content
        rest = original[len(original) // 2 - 3 :]
        assert [i for i in range(len(rest)) if half[i] != rest[i]] == [3]

    def test_slow(self, client):
        client.sandbox.faults.add(path="*", kind="slow", bytes_per_second=10 * client.archive.size)
        begin, answer = time.perf_counter(), client.fetch(client.signed(client.DOWNLOAD))
        assert answer.content == client.archive.path.read_bytes()
        assert time.perf_counter() - begin >= 0.05


class TestDamage:
    def fetched(self, client, **fault):
        client.sandbox.faults.add(path=client.DOWNLOAD, **fault)
        answer = client.fetch(client.signed(client.DOWNLOAD))
        assert answer.headers["ETag"] == f'"{hashlib.md5(answer.content).hexdigest()}"'
        return answer.content

    def test_served_against_the_listed_md5_once_or_listed_with_its_own_until_cleared(self, client):
        damaged = self.fetched(client, kind="line_malformed")
        assert client.call(f"{client.HOUR}/enwiki_namespace_0").json() == client.archive.record
        assert hashlib.md5(damaged).hexdigest() != client.archive.version
        again = client.fetch(client.signed(client.DOWNLOAD)).content
        assert hashlib.md5(again).hexdigest() == client.archive.version
        damaged = self.fetched(client, kind="line_malformed", listed=True)
        for _ in range(2):
            record = next(r for r in client.call(client.HOUR).json() if r["identifier"] == "enwiki_namespace_0")
            assert record["version"] == hashlib.md5(damaged).hexdigest() != client.archive.version
            assert record["size"]["value"] == round(len(damaged) / 1e6, 3)
            assert client.call(client.DOWNLOAD, "HEAD").headers["Content-Length"] == str(len(damaged))
            assert client.fetch(client.signed(client.DOWNLOAD)).content == damaged
        other = client.call(f"{client.HOUR}/frwiki_namespace_0").json()
        assert other == client.sandbox.world.batches(client.NOW.replace(hour=5, minute=0))[1].record
        client.sandbox.faults.clear()
        assert client.call(f"{client.HOUR}/enwiki_namespace_0").json() == client.archive.record

    def test_of_one_line(self, client):
        wanted = lines_of(client.archive.path)
        found = lines_of(self.fetched(client, kind="line_malformed", line=7))
        assert found[:7] + found[8:] == wanted
        with pytest.raises(json.JSONDecodeError):
            json.loads(found[7])
        assert faults._bad_line('{"é":1'.encode(), "line_malformed", {}) == b'{"\n'
        found = lines_of(self.fetched(client, kind="line_malformed", line=7, replace=True))
        assert (len(found), found[8:]) == (len(wanted), wanted[8:])
        assert found[7] != wanted[7]
        found = lines_of(self.fetched(client, kind="line_malformed", line=10**9))
        assert (found[:-2], found[-1]) == (wanted[:-1], wanted[-1])
        huge, *rest = lines_of(self.fetched(client, kind="line_huge", size=1_000_000))
        assert (rest, len(huge) > 1_000_000) == (wanted, True)
        assert json.loads(huge)["identifier"] not in {json.loads(line)["identifier"] for line in wanted}
        mistyped, *rest = lines_of(self.fetched(client, kind="line_type"))
        assert (rest, json.loads(mistyped)["identifier"]) == (wanted, "not a number")
        odd, *rest = lines_of(self.fetched(client, kind="line_utf8"))
        assert rest == wanted
        with pytest.raises(UnicodeDecodeError):
            odd.decode()

    def test_of_the_whole(self, client):
        damaged = self.fetched(client, kind="gzip_truncated", keep=0.7)
        assert damaged == client.archive.path.read_bytes()[: int(client.archive.size * 0.7)]
        with pytest.raises((EOFError, zlib.error)):
            gzip.decompress(damaged)
        empty = self.fetched(client, kind="empty")
        assert (members_of(empty), empty[4:8]) == ([], bytes(4))  # no time in the gzip header
        ((info, content),) = members_of(self.fetched(client, kind="empty_member"))
        assert (info.name, content) == ("enwiki_namespace_0_0.ndjson", b"")
        assert [info.name for info, _ in members_of(self.fetched(client, kind="no_ndjson"))] == ["README.txt"]


def test_faults_over_http(client):
    wanted = [{"path": "/v2/codes", "kind": "status", "status": 503}, {"kind": "cut"}]
    made = client.call("/sandbox/faults", "POST", json=wanted).json()
    own = {"method": None, "count": 1, "where": "api", "listed": False, "identifier": ANY, "hits": 0}
    assert [made[0], made[1]["kind"]] == [wanted[0] | own | dict.fromkeys(("message", "retry_after", "html")), "cut"]
    assert client.call("/v2/codes").status_code == 503
    assert client.call("/sandbox/faults").json()[0]["hits"] == 1
    client.sandbox.faults.add(path="*", kind="status", status=500, count=None)
    assert client.call("/sandbox/identity").status_code == 200
    assert [seen.path for seen in client.sandbox.requests] == ["/v2/codes"]
    assert client.call("/sandbox/faults", "DELETE").json() == []
