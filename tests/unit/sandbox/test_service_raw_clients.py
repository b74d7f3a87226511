"""Requests as other languages' HTTP clients write them, byte for byte, on the data host and on that of the streams."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from tests.unit.sandbox.conftest import NOW, small_sandbox

SINCE = f"{NOW - timedelta(hours=48):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture(scope="module")
def client(tmp_path_factory, signing_key):
    """A sandbox with streams, whose clock stands still."""
    few = {"projects": ("enwiki", "frwiki"), "namespaces": (0, 10, 14), "changes_per_hour": 12}
    with small_sandbox(tmp_path_factory.mktemp("raw"), signing_key, stream_rate=0, **few) as client:
        yield client


@pytest.fixture(autouse=True)
def as_before(client):
    yield
    client.sandbox.accounts.admissions.withdraw()


class Answer:
    """Status, headers and body of an answer that is read from a socket."""

    def __init__(self, file):
        self.status = int(file.readline().split()[1])
        self.headers = {}
        while line := file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        self._file = file

    def chunk(self):
        """The next part of a chunked body, or all of one that has a length."""
        if "content-length" in self.headers:
            return self._file.read(int(self.headers["content-length"]))
        data = self._file.read(int(self._file.readline(), 16))
        self._file.readline()
        return data

    @property
    def json(self):
        return json.loads(self.chunk())

    def events(self, count):
        """The first records of a stream of NDJSON."""
        data = b""
        while data.count(b"\n") < count:
            data += self.chunk()
        return [json.loads(line) for line in data.split(b"\n")[:count]]


@pytest.fixture
def send(client):
    """`send(head, body, realtime=False)`: the answer to these bytes; `{token}` in the head is the account's."""
    opened = []

    def ask(head, body=b"", *, realtime=False):
        host = urlsplit(client.sandbox.realtime_url if realtime else client.sandbox.url)
        lines = [line.strip().format(host=host.netloc, token=client.token) for line in head.strip().splitlines()]
        connection = socket.create_connection((host.hostname, host.port), timeout=120)
        opened.append(connection)
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return Answer(connection.makefile("rb"))

    yield ask
    for one in opened:
        one.close()


JAVA = """
    POST {path} HTTP/1.1
    Connection: Upgrade, HTTP2-Settings
    Content-Length: {length}
    Host: {{host}}
    HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA
    Upgrade: h2c
    User-Agent: Java-http-client/21.0.2
    Accept: application/x-ndjson
    Authorization: Bearer {{token}}
    Content-Type: application/json
"""


def java(path, body):
    content = json.dumps(body).encode()
    return JAVA.format(path=path, length=len(content)), content


class TestJava:
    """`HttpClient` asks for an upgrade with the first request of each connection."""

    def test_login(self, client, send):
        answer = send(*java("/v1/login", {"username": client.sandbox.username, "password": client.sandbox.password}))
        assert answer.status == 200
        assert "access_token" in answer.json

    def test_filters(self, send):
        answer = send(*java("/v2/projects", {"filters": [{"field": "identifier", "value": "frwiki"}]}))
        assert [json.loads(line)["identifier"] for line in answer.chunk().splitlines()] == ["frwiki"]

    def test_stream(self, send):
        body = {"parts": [0], "since_per_partition": {"4": SINCE}, "fields": ["name", "event.*"]}
        answer = send(*java("/v2/articles", body), realtime=True)
        assert answer.status == 200
        for record in answer.events(3):
            assert set(record) == {"name", "event"}
            assert record["event"]["partition"] == 4


BOUNDARY = "--------------------------302476498238714906154621"
NODE = """
    POST {path} HTTP/1.1
    content-type: multipart/form-data; boundary={boundary}
    Authorization: Bearer {{token}}
    Accept: application/x-ndjson, */*;q=0.5
    Host: {{host}}
    Connection: close
    Transfer-Encoding: chunked
"""


def node(path, *fields):
    """A form of the package `form-data`, which pipes each line of it into the request as a chunk."""
    lines = []
    for name, value in fields:
        lines += [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n', value, "\r\n"]
    lines.append(f"--{BOUNDARY}--\r\n")
    body = b"".join(f"{len(line.encode()):x}\r\n".encode() + line.encode() + b"\r\n" for line in lines) + b"0\r\n\r\n"
    return NODE.format(path=path, boundary=BOUNDARY), body


class TestNode:
    """`form-data` sends multipart, in chunks and without a length."""

    def test_login_and_refresh(self, client, send):
        account = [("username", client.sandbox.username), ("password", client.sandbox.password)]
        tokens = send(*node("/v1/login", *account)).json
        renewed = send(*node("/v1/token-refresh", account[0], ("refresh_token", tokens["refresh_token"])))
        assert (renewed.status, "access_token" in renewed.json) == (200, True)

    def test_filters(self, send):
        form = [("fields", "identifier"), ("filters", json.dumps({"field": "identifier", "value": "frwiki"}))]
        assert json.loads(send(*node("/v2/projects", *form)).chunk()) == {"identifier": "frwiki"}

    def test_stream(self, send):
        form = [("parts", "0"), ("since_per_partition", json.dumps({"4": SINCE})), ("fields", "event.*")]
        for record in send(*node("/v2/articles", *form), realtime=True).events(3):
            assert set(record) == {"event"}
            assert record["event"]["partition"] == 4


GO = """
    GET /v2/articles HTTP/1.1
    Host: {{host}}
    User-Agent: WME/Go-SDK
    Content-Length: {length}
    Accept: application/x-ndjson
    Authorization: Bearer {{token}}
    Cache-Control: no-cache
    Connection: keep-alive
    Content-Type: application/json
"""


class TestGo:
    """The official client sends a body with GET, and a time that is not set as the year 1."""

    @pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"])
    def test_a_time_that_is_not_set(self, send, since):
        body = {"since": since, "fields": None, "filters": None, "parts": [0], "offsets": None}
        content = json.dumps(body | {"since_per_partition": {"0": SINCE}}).encode()
        answer = send(GO.format(length=len(content)), content, realtime=True)
        assert answer.status == 200
        for record in answer.events(3):
            assert record["event"]["partition"] == 0

    def test_an_offset_in_another_part_is_passed_over(self, send):
        body = {"parts": [0], "offsets": {"49": 7}, "since_per_partition": {"0": SINCE, "49": SINCE}}
        content = json.dumps(body).encode()
        answer = send(GO.format(length=len(content)), content, realtime=True)
        assert {record["event"]["partition"] for record in answer.events(3)} == {0}


PHP = """
    {method} {path} HTTP/1.1
    Host: {{host}}
    User-Agent: GuzzleHttp/7
    {authorization}
    Accept: application/json
    Content-Type: application/json
    Content-Length: {length}
"""


def php(method, path, body=None, authorization="X-Nothing: 1"):
    content = b"" if body is None else json.dumps(body).encode()
    return PHP.format(method=method, path=path, length=len(content), authorization=authorization), content


@pytest.mark.parametrize("authorization", ["X-Nothing: 1", "Authorization: Bearer ", "Authorization: Bearer junk"])
class TestPhp:
    """A client on an admitted address sends no token, an empty one, or what is left of one."""

    FILTER = ("POST", "/v2/projects", {"filters": [{"field": "identifier", "value": "frwiki"}]})
    STREAM = ("POST", "/v2/articles", {"parts": [0], "since_per_partition": {"0": SINCE}})

    def test_lists_downloads_and_streams(self, client, send, authorization):
        client.sandbox.accounts.admissions.admit("127.0.0.0/8", ["group_3"])
        hour = f"{NOW - timedelta(hours=2):%Y-%m-%d/%H}"
        download = f"/v2/batches/{hour}/enwiki_namespace_0/download"
        assert [one["identifier"] for one in send(*php(*self.FILTER, authorization)).json] == ["frwiki"]
        answers = [send(*php(method, download, None, authorization)) for method in ("GET", "HEAD")]
        assert [answer.status for answer in answers] == [307, 200]
        assert send(*php(*self.STREAM, authorization), realtime=True).status == 200

    def test_another_address_is_refused(self, client, send, authorization):
        client.sandbox.accounts.admissions.admit("10.0.0.0/8", ["group_3"])
        assert send(*php(*self.FILTER, authorization)).status == 401
        assert send(*php(*self.STREAM, authorization), realtime=True).status == 401
