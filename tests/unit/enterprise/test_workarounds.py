"""What `workarounds` is for in requests and urllib3. A failure says that one can go or must be adapted."""

import logging
import pkgutil
import re
import socket
import ssl
from http.client import HTTPException
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
import requests
import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from resources.enterprise.errors import Redactor, UnexpectedAnswer
from resources.enterprise.http import workarounds
from resources.enterprise.http.bounds import Deadline, current_deadline
from resources.enterprise.http.workarounds import causes, reason
from tests.unit.enterprise.loopback import json_reply


def test_the_table_names_the_versions_that_are_installed():
    named = dict(re.findall(r"(requests|urllib3) (\d+\.\d+)", workarounds.__doc__))
    assert named == {name: metadata.version(name).rpartition(".")[0] for name in ("requests", "urllib3")}


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
    refused, broken = ConnectionRefusedError(111, "Connection refused"), OSError(32, "Broken pipe")
    tried = urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("127.0.0.1"), "/", refused)
    assert causes(requests.exceptions.ConnectionError(tried))[1:] == [tried, refused]
    assert reason(requests.exceptions.ConnectionError(tried)) == "the connection was refused"
    broken.__cause__ = OSError(5, "I/O error")
    assert reason(urllib3.exceptions.ProtocolError("Connection broken", broken)) == "the connection failed: I/O error"
    assert not issubclass(HTTPError, requests.exceptions.RequestException)


#: Classes of exceptions, and what is said of each.
REASONS = Path(__file__).with_name("reasons.txt").read_text().splitlines()


@pytest.mark.parametrize(("name", "words"), [line.split(": ") for line in REASONS])
def test_an_error_of_a_library_is_a_reason_in_plain_words(name, words):
    kind = pkgutil.resolve_name(name)
    assert reason(kind.__new__(kind)) == words


@pytest.mark.parametrize("kind", [ValueError, OverflowError, RecursionError, HTTPError, HTTPException])
def test_what_a_library_raises_is_an_error_of_the_client(kind):
    ask = Mock(side_effect=kind("odd"), __name__="ask")
    client = workarounds.guarded(type("Client", (), {"ask": ask, "redactor": Redactor()}))()
    with pytest.raises(UnexpectedAnswer, match=rf"^`ask` failed on an unexpected value \({kind.__name__}: odd\)"):
        client.ask()
    client.redactor.learn("NeverShown1")
    ask.side_effect = kind("x" * 280 + "NeverShown1")  # where the message is cut
    with pytest.raises(UnexpectedAnswer, match=r"x\[hid"):
        client.ask()


def test_answers_are_read_from_a_file_that_can_be_replaced(fake):
    """A deadline holds because http.client reads from `fp`, a buffer over a file of the socket."""
    fake.script("/v2/codes", json_reply([]), json_reply([]))
    pool = urllib3.connection_from_url(fake.url)
    pool.ConnectionCls = workarounds._Connection
    previous = current_deadline.set(Deadline(60))
    try:
        answer = pool.request("GET", "/v2/codes", preload_content=False)
        plain = urllib3.connection_from_url(fake.url).request("GET", "/v2/codes", preload_content=False)
    finally:
        current_deadline.reset(previous)
    assert isinstance(answer._fp.fp.raw, workarounds._Timed)
    assert isinstance(plain._fp.fp.raw, socket.SocketIO)
