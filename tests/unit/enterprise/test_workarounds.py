"""The behaviour of requests and urllib3 that `workarounds` is for.

A test that fails says that a workaround can be deleted or must be adapted.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from email.message import Message
from importlib import metadata
from io import BytesIO

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from resources.enterprise.http import workarounds
from resources.enterprise.http.bounds import Deadline, until
from resources.enterprise.http.workarounds import Session, causes, no_auth, reason
from tests.unit.enterprise.loopback import json_reply

URL = "http://127.0.0.1:9/x"


def session_on(kind, location):
    """A session whose only answer is a redirect that also sets a cookie."""

    class Adapter(HTTPAdapter):
        def send(self, request, **_):
            headers = {"Location": location, "Set-Cookie": "a=b"}
            raw = urllib3.HTTPResponse(BytesIO(b""), headers, 302, preload_content=False)
            raw._original_response = type("Sent", (), {"msg": Message(), "isclosed": lambda self: True})()
            raw._original_response.msg["Set-Cookie"] = "a=b"
            return self.build_response(request, raw)

    session = kind()
    session.mount("http://", Adapter())
    return session


def test_the_table_names_the_versions_that_are_installed():
    named = dict(re.findall(r"(requests|urllib3) (\d+\.\d+)", workarounds.__doc__))
    assert named == {name: metadata.version(name).rpartition(".")[0] for name in ("requests", "urllib3")}


def test_redirects_that_are_not_followed_are_prepared_all_the_same():
    with session_on(requests.Session, "http://[broken") as plain, pytest.raises(ValueError, match="Invalid"):
        plain.get(URL, allow_redirects=False)
    with session_on(Session, "http://[broken") as ours:
        assert ours.get(URL, allow_redirects=False).status_code == 302


def test_cookies_are_kept():
    with session_on(requests.Session, "/y") as plain, session_on(Session, "/y") as ours:
        for session in (plain, ours):
            session.get(URL, allow_redirects=False)
        assert list(plain.cookies) != []
        assert list(ours.cookies) == []


def test_credentials_of_a_netrc_file_are_sent(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password FromNetrc99\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with requests.Session() as session:
        assert "Authorization" in session.prepare_request(requests.Request("GET", URL)).headers
        assert "Authorization" not in session.prepare_request(requests.Request("GET", URL, auth=no_auth)).headers


def test_queries_stand_in_the_log(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("urllib3.connectionpool"), "filters", [])  # as if no client had been made
    with caplog.at_level(logging.DEBUG, "urllib3"), pytest.raises(urllib3.exceptions.MaxRetryError):
        # loopback, and nobody listens on this port
        urllib3.HTTPConnectionPool("127.0.0.1", 9).urlopen("GET", "/x?Signature=Key99", retries=Retry(1))
    lines = [(record.name, str(record.msg)) for record in caplog.records]
    assert [name for name, line in lines if line.startswith("Retrying (")] == ["urllib3.connectionpool"]


def test_tls_is_forgotten_by_a_shutdown():
    assert ssl.SSLSocket.shutdown is not socket.socket.shutdown


def test_errors_name_what_they_stem_from():
    """By `reason`, an argument, or as the cause: `causes` follows all of them."""
    refused = ConnectionRefusedError(111, "Connection refused")
    tried = urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("127.0.0.1"), "/", refused)
    assert causes(requests.exceptions.ConnectionError(tried))[1:] == [tried, refused]
    assert reason(requests.exceptions.ConnectionError(tried)) == "the connection was refused"
    assert reason(urllib3.exceptions.ProtocolError("Connection broken", OSError(5, "I/O error"))).endswith("I/O error")
    assert not issubclass(urllib3.exceptions.HTTPError, requests.exceptions.RequestException)


def test_answers_are_read_from_a_file_that_can_be_replaced(fake):
    """A deadline holds because http.client reads from `fp`, a buffer over a file of the socket."""
    fake.script("/v2/codes", json_reply([]), json_reply([]))
    pool = urllib3.connection_from_url(fake.url)
    pool.ConnectionCls = workarounds._Connection
    with until(Deadline(60)):
        answer = pool.request("GET", "/v2/codes", preload_content=False)
    assert isinstance(answer._fp.fp.raw, workarounds._Timed)
    with until(Deadline(60)):
        plain = urllib3.connection_from_url(fake.url).request("GET", "/v2/codes", preload_content=False)
    assert isinstance(plain._fp.fp.raw, socket.SocketIO)
