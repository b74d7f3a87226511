"""Hourly batches over HTTP: lists, single records, publication and retention, downloads and the object store."""

import hashlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime

import pytest
import requests

from resources.sandbox.store import object_index
from resources.sandbox.world.world import micros
from tests.unit.sandbox.conftest import FILE_KEYS, small_sandbox


def code(answer):
    """The code of an error of the object store."""
    assert answer.headers["Content-Type"] == "application/xml"
    assert f"<RequestId>{answer.headers['x-amz-request-id']}</RequestId>" in answer.text
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


class TestLists:
    def test_the_list_of_an_hour(self, client):
        answer = client.call(client.HOUR)
        records = answer.json()
        assert [record["identifier"] for record in records] == ["enwiki_namespace_0", "frwiki_namespace_0"]
        assert list(records[0]) == FILE_KEYS
        assert records[0] == client.archive.record
        assert client.call(client.HOUR.replace("batches", "batches/wikidata")).json() == []
        assert client.sandbox.topics["wikidata-article"].hour(micros(client.NOW) // 3_600_000_000) == []
        assert f'"size":{{"value":{records[0]["size"]["value"]}e0,"unit_text":"MB"}}' in answer.text

    def test_one_record(self, client):
        body = {"fields": ["version"], "filters": [{"field": "is_part_of.identifier", "value": "enwiki"}]}
        assert client.call(client.HOUR, "POST", json=body).json() == [{"version": client.archive.version}]
        one = f"{client.HOUR}/enwiki_namespace_0"
        assert client.call(one).json() == client.archive.record
        assert client.call(one, "POST", json={"fields": ["size.unit_text"]}).json() == {"size": {"unit_text": "MB"}}
        answer = client.call(f"{client.HOUR}/dewiki_namespace_0")
        assert (answer.status_code, answer.json()["status"]) == (404, 404)
        for hour in ("-3-09/05", "-03-09/5", "-03-09/24", "-02-30/05", "-yesterday/05", "-03-09/ 5", "9999-12-31/23"):
            answer = client.call(f"/v2/batches/{hour.replace('-', '2025-', hour[0] == '-')}")
            assert answer.status_code == 404
            assert answer.json()["message"].startswith("NoSuchKey")

    def test_a_list_appears_when_its_hour_is_whole_and_is_removed_after_two_days(self, client):
        ready = client.sandbox.world.hour_ready_at(datetime(2025, 3, 9, 7, tzinfo=UTC))
        for moment, status in ((ready - timedelta(seconds=1), 404), (ready, 200)):
            client.sandbox.clock.set(moment)
            for path in ("/v2/batches/2025-03-09/07", "/v2/batches/2025-03-09/07/enwiki_namespace_0"):
                assert client.call(path).status_code == status
        client.sandbox.clock.set(datetime(2025, 3, 11, 4, 59, 59, tzinfo=UTC))
        client.login()
        assert client.call(client.HOUR).status_code == 200
        location = client.signed(client.DOWNLOAD)
        client.sandbox.clock.advance(timedelta(seconds=1))
        assert client.call(client.HOUR).status_code == 404
        assert client.call(client.DOWNLOAD, "HEAD").status_code == 404
        assert code(client.fetch(location)) == "NoSuchKey"


class TestDownloads:
    def test_head_is_answered_by_the_service_itself(self, client):
        answer = client.call(client.DOWNLOAD, "HEAD")
        ended = datetime.fromisoformat(client.archive.record["date_modified"])
        headers = {"Content-Length": str(client.archive.size), "Content-Type": "binary/octet-stream"}
        headers |= {"Accept-Ranges": "bytes", "ETag": f'"{client.archive.version}"'}
        headers |= {"Last-Modified": f"{ended:Sun, %d Mar %Y %H:%M:%S UTC}"}
        assert (answer.status_code, {name: answer.headers[name] for name in headers}) == (200, headers)
        assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
        assert client.call(f"{client.HOUR}/dewiki_namespace_0/download", "HEAD").status_code == 404

    def test_get_is_redirected_to_the_other_port(self, client):
        answer = client.call(client.DOWNLOAD)
        assert (answer.status_code, answer.content) == (307, b"")
        location = answer.headers["Location"]
        assert location.startswith(client.sandbox.object_url + "/")
        assert "X-Amz-Expires=60" in location
        assert f"sub={client.sandbox.accounts.user('sandbox').subject}" in location
        fetched = client.call(client.DOWNLOAD, allow_redirects=True)
        assert [seen.status for seen in client.sandbox.requests] == [307, 307, 200]
        assert hashlib.md5(fetched.content).hexdigest() == client.archive.version
        assert parsedate_to_datetime(fetched.headers["Last-Modified"]).hour == 6
        answer = client.fetch(location, Authorization=f"Bearer {client.token}")
        assert (answer.status_code, code(answer)) == (400, "InvalidArgument")
        answer = client.fetch(client.signed(f"{client.HOUR}/d%C3%A9 wiki_namespace_0/download"))
        assert (answer.status_code, code(answer)) == (404, "NoSuchKey")

    def test_signatures_open_one_path_for_get_only_and_for_sixty_seconds(self, client):
        location = client.signed(client.DOWNLOAD)
        assert code(client.fetch(location.replace("enwiki", "frwiki"))) == "SignatureDoesNotMatch"
        assert code(client.fetch(location.replace("X-Amz-Date=2025", "X-Amz-Date=2026"))) == "SignatureDoesNotMatch"
        assert code(client.fetch(location.partition("?")[0])) == "AccessDenied"
        assert client.fetch(location, "HEAD").status_code == 403
        assert code(client.fetch(location, "DELETE")) == "SignatureDoesNotMatch"
        assert code(client.fetch(client.sandbox.object_url + "/")) == "AccessDenied"
        client.sandbox.clock.advance(timedelta(seconds=60))
        assert client.fetch(location).status_code == 200
        client.sandbox.clock.advance(timedelta(seconds=1))
        answer = client.fetch(location)
        assert (answer.status_code, code(answer)) == (403, "AccessDenied")
        assert "Request has expired" in answer.text


class TestRanges:
    @pytest.fixture
    def get(self, client):
        location = client.signed(client.DOWNLOAD)
        content = client.archive.path.read_bytes()
        return lambda **headers: (client.fetch(location, **headers), content)

    @pytest.mark.parametrize(
        ("asked", "start", "stop"),
        [
            ("bytes=0-", 0, None), ("bytes=100-199", 100, 200), ("bytes=0-0", 0, 1),
            ("bytes=100-99999999", 100, None), ("bytes=-10", -10, None), ("bytes=-99999999", 0, None),
        ],
    )  # fmt: skip
    def test_parts(self, get, asked, start, stop):
        answer, content = get(Range=asked)
        assert (answer.status_code, answer.content) == (206, content[start:stop])
        first, last = content.index(answer.content[:50]), len(answer.content) - 1
        assert answer.headers["Content-Range"] == f"bytes {first}-{first + last}/{len(content)}"
        assert answer.headers["Content-Length"] == str(len(answer.content))

    def test_what_cannot_be_read_brings_the_whole_and_no_byte_there_is_an_error(self, get):
        for asked in ("bytes=0-1,3-4", "bytes=5-2", "bytes=-", "lines=1-2", "bytes=x"):
            answer, content = get(Range=asked)
            assert (asked, answer.status_code, answer.content) == (asked, 200, content)
        for asked in ("bytes=99999999-", "bytes=-0"):
            answer, content = get(Range=asked)
            assert (answer.status_code, code(answer)) == (416, "InvalidRange")
            assert answer.headers["Content-Range"] == f"bytes */{len(content)}"

    def test_conditions(self, get):
        tag, modified = (get()[0].headers[name] for name in ("ETag", "Last-Modified"))
        at = parsedate_to_datetime(modified)
        earlier, later = (format_datetime(at + timedelta(seconds=by), usegmt=True) for by in (-1, 1))
        for headers, status in (
            ({"If_Match": tag}, 200), ({"If_Match": "*"}, 200), ({"If_Match": '"other"'}, 412),
            ({"If_Match": tag.strip('"'), "If_Unmodified_Since": earlier}, 200),
            ({"If_Match": tag, "Range": "bytes=0-9"}, 206), ({"Range": "bytes=5-", "If_Range": tag}, 206),
            ({"Range": "bytes=5-", "If_Range": modified}, 206), ({"Range": "bytes=5-", "If_Range": '"other"'}, 200),
            *(({"Range": "bytes=5-", "If_Range": other}, 200) for other in (earlier, later)),
            ({"If_None_Match": f'"other", W/{tag}'}, 304), ({"If_Unmodified_Since": modified}, 200),
            ({"If_None_Match": '"other"', "If_Modified_Since": modified}, 200), ({"If_Unmodified_Since": earlier}, 412),
            ({"If_Modified_Since": modified}, 304), ({"If_Modified_Since": earlier}, 200),
            ({"If_Modified_Since": "not a date"}, 200),
        ):  # fmt: skip
            answer, _ = get(**headers)
            assert (headers, answer.status_code) == (headers, status)
        answer, _ = get(If_None_Match=tag)
        assert (answer.content, answer.headers["ETag"], answer.headers.get("Content-Type")) == (b"", tag, None)


def test_an_empty_object_and_a_large_one(client, monkeypatch):
    """Files above the part size have an ETag that is no MD5; a file without a byte is served as such."""
    archive = client.archive
    monkeypatch.setattr(object_index, "_PART_BYTES", 1000)
    whole = client.call(client.DOWNLOAD, "HEAD").headers["ETag"]
    parts = [archive.path.read_bytes()[i : i + 1000] for i in range(0, archive.size, 1000)]
    joined = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    assert whole == f'"{joined}-{len(parts)}"'
    monkeypatch.undo()
    client.sandbox.faults.add(path="*", kind="gzip_truncated", keep=0.0, listed=True)
    answer = client.fetch(client.signed(client.DOWNLOAD))
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_body_under_way_keeps_nobody_waiting(tmp_path, signing_key):
    with small_sandbox(tmp_path, signing_key) as client:
        client.sandbox.faults.add(path="*", kind="slow", bytes_per_second=10)
        with requests.get(client.signed(client.DOWNLOAD), stream=True, timeout=120) as answer:
            assert answer.status_code == 200
            assert (client.call("/v2/codes").status_code, client.sandbox.journal.idle_seconds()) == (200, 0)
