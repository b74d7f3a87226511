"""Requests as other languages' HTTP clients write them, byte for byte, on the data host and on that of the streams."""

import json
import socket
from contextlib import ExitStack
from datetime import timedelta
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.unit.sandbox.conftest import NOW, small_sandbox

#: Heads of requests: Java, Node, Go and PHP.
_, *HEADS = Path(__file__).with_name("heads.txt").read_text().split("\n\n# ")
JAVA, NODE, GO, PHP = (one.partition("\n")[2] for one in HEADS)
SINCE = f"{NOW - timedelta(hours=48):%Y-%m-%dT%H:%M:%SZ}"
FRENCH = {"field": "identifier", "value": "frwiki"}


@pytest.fixture(scope="module")
def client(tmp_path_factory, signing_key):
    """A sandbox with streams, whose clock stands still."""
    few = {"projects": ("enwiki", "frwiki"), "namespaces": (0, 10, 14), "changes_per_hour": 12}
    with small_sandbox(tmp_path_factory.mktemp("raw"), signing_key, stream_rate=0, **few) as client:
        yield client


@pytest.fixture
def send(client):
    """`send(head, body, realtime=False)`: the answer to these bytes; `{token}` in the head is the account's."""
    with ExitStack() as opened:

        def ask(head, body=b"", *, realtime=False):
            host = urlsplit(client.sandbox.realtime_url if realtime else client.sandbox.url)
            lines = [line.strip().format(host=host.netloc, token=client.token) for line in head.strip().splitlines()]
            connection = opened.enter_context(socket.create_connection((host.hostname, host.port), timeout=120))
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            answer = HTTPResponse(connection, method=lines[0].split()[0])
            answer.begin()
            return answer

        yield ask


def events(answer):
    """The first records of a stream of NDJSON."""
    assert answer.status == 200
    return [json.loads(answer.readline()) for _ in range(3)]


def java(path, fields):
    content = json.dumps(fields).encode()
    return JAVA.format(path=path, length=len(content)), content


BOUNDARY = "--------------------------302476498238714906154621"


def node(path, fields):
    """A form of the package `form-data`, which pipes each line of it into the request as a chunk, without a length."""
    lines = []
    for name, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            text = one if isinstance(one, str) else json.dumps(one)
            file = '; filename="filters.json"' if name == "filters" else ""
            head = f'Content-Disposition: form-data; name="{name}"{file}'
            lines += [f"--{BOUNDARY}\r\n{head}\r\n\r\n", text, "\r\n"]
    lines.append(f"--{BOUNDARY}--\r\n")
    body = b"".join(f"{len(line.encode()):x}\r\n".encode() + line.encode() + b"\r\n" for line in lines) + b"0\r\n\r\n"
    return NODE.format(path=path, boundary=BOUNDARY), body


@pytest.mark.parametrize("write", [java, node])
def test_java_and_node_log_in_filter_and_read_a_stream(client, send, write):
    account = {"username": client.sandbox.username, "password": client.sandbox.password}
    tokens = json.loads(send(*write("/v1/login", account)).read())
    refresh = {"username": client.sandbox.username, "refresh_token": tokens["refresh_token"]}
    assert "access_token" in json.loads(send(*write("/v1/token-refresh", refresh)).read())
    found = send(*write("/v2/projects", {"fields": ["identifier"], "filters": [FRENCH]})).read()
    assert found == b'{"identifier":"frwiki"}\n'
    body = {"parts": [0], "since_per_partition": {"4": SINCE}, "fields": ["name", "event.*"]}
    for record in events(send(*write("/v2/articles", body), realtime=True)):
        assert set(record) == {"name", "event"}
        assert record["event"]["partition"] == 4


@pytest.mark.parametrize(
    "more",
    [
        {"since": "0001-01-01T00:00:00Z", "fields": None, "filters": None, "offsets": None},
        {"since": "0001-01-01T01:00:00+01:00", "offsets": None},
        {"offsets": {"49": 7}, "since_per_partition": {"0": SINCE, "49": SINCE}},
    ],
    ids=["year 1", "year 1 elsewhere", "another part"],
)
def test_go_sends_a_body_with_get_and_times_that_are_not_set(send, more):
    """A time that is not set is the year 1; an offset in another part is passed over."""
    content = json.dumps({"parts": [0], "since_per_partition": {"0": SINCE}} | more).encode()
    for record in events(send(GO.format(length=len(content)), content, realtime=True)):
        assert record["event"]["partition"] == 0


@pytest.mark.parametrize("authorization", ["X-Nothing: 1", "Authorization: Bearer ", "Authorization: Bearer junk"])
def test_php_on_an_admitted_address_sends_no_token_an_empty_one_or_what_is_left_of_one(client, send, authorization):
    def ask(method, path, body=None, **where):
        content = b"" if body is None else json.dumps(body).encode()
        head = PHP.format(method=method, path=path, length=len(content), authorization=authorization)
        return send(head, content, **where)

    download = f"/v2/batches/{NOW - timedelta(hours=2):%Y-%m-%d/%H}/enwiki_namespace_0/download"
    stream = {"parts": [0], "since_per_partition": {"0": SINCE}}
    for network, statuses in (("127.0.0.0/8", [200, 307, 200, 200]), ("10.0.0.0/8", [401] * 4)):
        client.sandbox.accounts.admissions.withdraw()
        client.sandbox.accounts.admissions.admit(network, ["group_3"])
        answers = [ask("POST", "/v2/projects", {"filters": [FRENCH]}), ask("GET", download), ask("HEAD", download)]
        answers.append(ask("POST", "/v2/articles", stream, realtime=True))
        assert [answer.status for answer in answers] == statuses
    client.sandbox.accounts.admissions.withdraw()
