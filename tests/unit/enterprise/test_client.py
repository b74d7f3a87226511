"""Lists, refusals and connections: what the answers of the service mean, each a different sentence."""

import datetime as dt
import itertools
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock, create_autospec

import pytest
import requests
from requests.adapters import HTTPAdapter

from resources.enterprise import Limits, RetryPolicy, StreamOptions, errors, models
from resources.enterprise.data_api import Pace
from tests.unit.enterprise.conftest import HOUR, QUICK
from tests.unit.enterprise.loopback import Reply, error_reply, html_reply, json_reply

LIST = "/v2/batches/2026-11-01/05"


def test_a_list_keeps_the_bytes_of_the_answer(client, fake):
    raw = b' [ {"identifier":"wiki",  "name":"Wikipedia","new_field":{"a":1.5e0}} ]\n'
    fake.script("/v2/codes", Reply(200, raw, {"Content-Type": "application/json", "Set-Cookie": "a=b"}))
    listing = client.lists.reference("codes")
    assert listing.raw == raw
    assert [code.identifier for code in listing] == ["wiki"]
    assert listing.typed(models.Entry) == listing.records
    with pytest.raises(
        errors.UnexpectedAnswer, match=r"/v2/codes contains records .* Batch \(0\.version: Field required"
    ):
        listing.typed(models.Batch)
    assert listing.records[0].model_extra == {"name": "Wikipedia", "new_field": {"a": 1.5}}
    assert (len(listing), listing.url_path) == (1, "/v2/codes")
    client.lists.reference("codes")
    for request in fake.api.seen("/v2/codes"):
        assert [request.headers[name] for name in ("accept", "accept-encoding")] == ["application/json", "gzip"]
        assert "cookie" not in request.headers


def test_the_hour_is_written_in_utc_and_what_is_none_is_not_sent(client, fake, content):
    for wrong in (
        HOUR.replace(tzinfo=None),
        *(HOUR + dt.timedelta(**{one: 1}) for one in ("minutes", "seconds", "microseconds")),
    ):
        with pytest.raises(errors.InvalidRequest, match="Nothing was sent"):
            client.hours.listing(wrong)
    assert fake.api.requests == []
    client.hours.listing(HOUR.astimezone(dt.timezone(dt.timedelta(hours=-7))))
    assert len(fake.api.seen(LIST)) == 1
    evening = LIST.replace("/05", "/17")
    fake.script(evening, json_reply([]))
    client.hours.listing(HOUR + dt.timedelta(hours=12))
    assert len(fake.api.seen(evening)) == 1
    fake.add("enwiki_namespace_0", content)
    assert client.hours.record(HOUR, "enwiki_namespace_0").project_id == "enwiki"
    with pytest.raises(errors.NotFound) as caught:
        client.hours.record(HOUR, "xxwiki_namespace_0")
    assert type(caught.value) is errors.NotFound
    with pytest.raises(errors.NotPublishedYet):
        client.hours.record(HOUR + dt.timedelta(hours=1), "enwiki_namespace_0")


def sent(data):
    return Reply(raw=lambda connection: connection.sendall(data))


MANY_HEADERS = b"".join(b"X-%d: x\r\n" % number for number in range(200))


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (error_reply(400, "ParseInvalidPathComponent"), errors.InvalidRequest, "ParseInvalidPathComponent"),
        *((Reply(400, body), errors.InvalidRequest, r"status 400\.") for body in (b"x" * 101, b"\x1b[2J")),
        (Reply(400, b"missing username or password\n"), errors.InvalidRequest, r"400 \(missing username or password\)"),
        (json_reply({"message": ["x"]}, 400), errors.InvalidRequest, r"status 400\."),
        (error_reply(422, "limit cannot be greater than 10"), errors.InvalidRequest, "limit cannot be"),
        (error_reply(403, "Forbidden"), errors.Forbidden, "wme auth status"),
        (error_reply(404, "NoSuchKey"), errors.NotFound, "NoSuchKey"),
        (error_reply(408, "no"), errors.UnexpectedAnswer, "not documented"),
        *((error_reply(status, "no"), errors.ServiceUnavailable, f"status {status}") for status in (501, 505, 599)),
        (error_reply(500, "InternalError: store"), errors.ServiceUnavailable, r"store\)\. .* 3 retries"),
        (html_reply(502), errors.ServiceUnavailable, "HTML page"),
        (html_reply(503), errors.ServiceUnavailable, "load balancer"),
        (html_reply(200), errors.ServiceUnavailable, "HTML page"),
        (html_reply(404), errors.UnexpectedAnswer, "addresses"), (html_reply(403), errors.UnexpectedAnswer, "proxy"),
        (Reply(200, b" <p>"), errors.ServiceUnavailable, "HTML page"),
        *((Reply(200, body), errors.ServiceUnavailable, "empty body") for body in (b"", b" \n")),
        *((json_reply([], n), errors.UnexpectedAnswer, f"status {n}.* not documented") for n in (201, 206, 302)),
        *((Reply(200, b), errors.UnexpectedAnswer, "documented form") for b in (b"[{", b'{"identifier": "wiki"}')),
        (json_reply([{"identifier": None}]), errors.UnexpectedAnswer, "and 1 more"),
        (json_reply([{"identifier": "a"}] * (models.LONGEST_LIST + 1)), errors.UnexpectedAnswer, "at most 50000"),
        (Reply(200, b'[{"identifier": "wiki"}]', cut=7), errors.ServiceUnavailable, "cut off"),
        (Reply(drop=True), errors.ServiceUnavailable, "closed without a response"),
        (Reply(200, b"no gzip", {"Content-Encoding": "gzip"}), errors.ServiceUnavailable, "response is corrupt"),
        (sent(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), errors.ServiceUnavailable, "cut off"),
        (sent(b"HTTP/1.1 200 OK\r\n" + MANY_HEADERS + b"\r\n"), errors.ServiceUnavailable, "not valid HTTP"),
        (sent(b"SSH-2.0-x\r\n"), errors.ServiceUnavailable, "not valid HTTP"),
        (Reply(302, b"", {"Location": "/elsewhere"}), errors.ServiceUnavailable, "empty body"),
        (Reply(418, b"{}"), errors.UnexpectedAnswer, "not documented"),
    ],
)  # fmt: skip
def test_every_refusal_is_an_error_of_its_kind_with_a_sentence(client, fake, reply, kind, words):
    fake.script("/v2/codes", *[reply] * 9)
    with pytest.raises(kind, match=words) as caught:
        client.lists.reference("codes")
    assert type(caught.value) is kind
    assert reply.status < 400 or caught.value.status == reply.status
    assert re.fullmatch(r"[A-Z].*\.", caught.value.message)
    assert "list the codes" in caught.value.message
    # only what heals by itself is asked again
    heals = kind is errors.ServiceUnavailable and reply.status not in {501, 505, 599}
    assert len(fake.api.seen("/v2/codes")) == (1 + QUICK.retries if heals else 1)


#: Documented and observed: the service's own 500, and the three of a load balancer; each with a broken answer.
BROKEN = {500: Reply(drop=True), 502: html_reply(200), 503: Reply(200), 504: Reply(200, b"[      ]", cut=3)}


@pytest.mark.parametrize("status", BROKEN)
@pytest.mark.parametrize("path", ["/v2/codes", "/v1/login", "/v1/token-refresh", "/v1/get-user"])
def test_what_heals_is_asked_again_at_every_host_as_often_as_patience_says(client, fake, status, path):
    client.account.login()
    before = len(fake.api.seen(path))
    fake.script(path, error_reply(status, "no"), html_reply(status), BROKEN[status])
    asked = {"/v2/codes": lambda: client.lists.reference("codes"), "/v1/login": client.account.login}
    asked |= {"/v1/token-refresh": client.account.refresh, "/v1/get-user": client.account.user}
    asked[path]()
    assert len(fake.api.seen(path)) == before + 4
    fake.script(path, *[error_reply(status, "no")] * 9)
    with pytest.raises(errors.ServiceUnavailable):
        asked[path]()
    assert len(fake.api.seen(path)) == before + 4 + 1 + QUICK.retries


def test_no_connection_says_which_host_and_is_one_line_in_the_log(make_client, fake, caplog):
    caplog.set_level("INFO")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(errors.UnreachableError, match=r"refused \(127.0.0.1\).*Check this machine"):
            make_client(auth_url=url, base_url=url).lists.reference("codes")
    [line] = caplog.messages
    assert "/v1/login): the connection was refused (127.0.0.1). Retrying up to 3 times." in line
    once, tls = RetryPolicy(retries=0, read_timeout=0.05), fake.url.replace("http:", "https:")
    hosts = {
        "https://no-such-host.invalid": r"cannot be resolved \(no-such-host.invalid\)",
        tls: r"\(TLS\).*machine's clock",
    }
    for url, words in hosts.items():
        with pytest.raises(errors.UnreachableError, match=words):
            make_client(auth_url=url, retry=RetryPolicy(retries=0)).account.login()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = make_client(auth_url=url, retry=once, limits=Limits(answer_seconds=5))
        with pytest.raises(errors.ServiceUnavailable, match="no response in time"):
            client.account.login()


def test_a_proxy_of_the_environment_is_used(make_client, fake, monkeypatch):
    monkeypatch.setenv("http_proxy", fake.url)
    client = make_client(base_url="http://api.example.org", allow_http=True)
    assert len(client.lists.reference("codes")) == 1
    assert client._transport._networks == {"public"}  # that of the proxy is not the service's
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(errors.UnreachableError, match=r"the proxy refused the connection \(api\.example\.org\)"):
        client.lists.reference("codes")


def test_a_token_that_is_refused_by_a_bare_text_is_renewed(client, fake, caplog):
    client.account.login()
    caplog.set_level("INFO")
    busy = [error_reply(503, "busy")] * QUICK.retries
    fake.script("/v2/codes", Reply(401, b"Jwt is expired", {"Content-Type": "text/plain"}), *busy)
    assert len(client.lists.reference("codes")) == 1
    said = "Could not list the codes: the service responded with status 503 (busy). Retrying up to 3 times."
    assert caplog.messages[1:] == [said]
    fake.script("/v2/codes", *[Reply(401, b"Jwt is expired", {"Content-Type": "text/plain"})] * 2)
    with pytest.raises(errors.AuthenticationError, match=r"401 \(Jwt is expired\)"):
        client.lists.reference("codes")
    fake.script("/v2/codes", *[html_reply(401)] * 2)
    with pytest.raises(errors.AuthenticationError, match=r"status 401\."):
        client.lists.reference("codes")
    assert len(fake.api.seen("/v2/codes")) == 9


@pytest.mark.parametrize("user", [{}, {"batch_requests_count": 14, "batch_limit": 15}, None], ids=str)
def test_a_rate_limit_is_waited_out_unless_it_has_no_end(client, fake, user):
    """The account has no counter, has units left, or cannot be asked."""
    if user is None:
        fake.script("/v1/get-user", *[error_reply(500, "no")] * 10)
    fake.user |= user or {}
    fake.script(LIST, error_reply(429, "Too Many Requests"), html_reply(429))
    client.hours.listing(HOUR)
    assert client.lists._api._pace._rate == 21  # halved by each refusal, and one more after the success
    assert len(fake.api.seen(LIST)) == 3
    # which is asked once, or as often as patience says
    assert len(fake.api.seen("/v1/get-user")) == (1 + QUICK.retries if user is None else 1)
    fake.script(LIST, *[error_reply(429, "Too Many Requests")] * 20)
    with pytest.raises(errors.RateLimited, match="later"):
        client.hours.listing(HOUR)
    assert len(fake.api.seen(LIST)) == 3 + 1 + QUICK.retries


def test_retry_after_is_obeyed_within_bounds():
    retry = RetryPolicy(first_wait=1.0, longest_wait=4.0)
    assert [retry.wait(1, asked) for asked in (3.0, 86_400.0, -1)] == [3.0, 4.0, 0.0]
    assert all(0.5 <= retry.wait(1) <= 1.0 for _ in range(50))
    assert all(2.0 <= retry.wait(9) <= 4.0 for _ in range(50))


def test_every_error_says_whether_it_can_be_retried():
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.EnterpriseError)]
    retried = {"NotPublishedYet", "RateLimited", "ServiceUnavailable", "StateBusy", "UnreachableError"}
    assert {k.__name__ for k in kinds if k.retryable} == retried
    assert len(kinds) == 21


def test_a_known_rate_is_kept_by_all_threads_together_and_without_one_nobody_waits(monkeypatch):
    pace = Pace(1000.0)
    with ThreadPoolExecutor(4, initializer=threading.Barrier(4).wait) as pool:
        turns = sorted(itertools.chain(*pool.map(lambda _: [pace.turn() for _ in range(20)], range(4))))
    assert all(after - before >= 0.00104 for before, after in itertools.pairwise(turns))
    monkeypatch.setattr("resources.enterprise.data_api.time.sleep", Mock(side_effect=AssertionError))
    unknown = Pace(None)
    assert len([unknown.turn() for _ in range(1000)]) == 1000


def test_a_refusal_slows_once_for_all_that_were_under_way_and_answers_speed_up_again():
    pace = Pace(None)
    early = [pace.turn() for _ in range(8)]
    for began in early:
        pace.refused(began)
    assert pace._rate == 40
    pace.refused(pace.turn())
    assert pace._rate == 20
    for _ in range(40):
        pace.admitted()
    assert pace._rate == 60
    for _ in range(400):
        pace.admitted()
    assert pace._rate == float("inf")


def test_however_often_it_is_refused_a_request_a_second_goes_out_and_a_known_rate_is_never_exceeded():
    pace = Pace(None)
    for moment in range(50):
        pace.refused(float("inf") if moment else 0.0)
    assert pace._rate == 1.0
    slow = Pace(0.5)
    slow.refused(float("inf"))
    assert slow._rate < 0.5
    for _ in range(10):
        slow.admitted()
    assert slow._rate < 0.5


def test_the_operator_is_named_and_clients_close_and_open_again(make_client, fake, monkeypatch):
    close, send = (create_autospec(one, side_effect=one) for one in (requests.Session.close, HTTPAdapter.send))
    monkeypatch.setattr(requests.Session, "close", close)
    monkeypatch.setattr(HTTPAdapter, "send", send)
    with make_client(contact="Zoë\r\nX: y <ops@example.org>") as client:
        client.lists.reference("codes")
    assert close.call_count == 1
    assert len(client.lists.reference("codes")) == 1
    assert {call.kwargs["timeout"] for call in send.call_args_list} == {(55, 60)}
    fake.script("/v2/articles", Reply(200, b'{"event":{}}\n', chunked=True))
    with client.stream(options=StreamOptions(connections=1)) as stream:
        assert stream.take(60)
    assert send.call_args_list[3].kwargs["timeout"] == (55, None)  # nothing may come for long
    for request in fake.api.requests:
        assert request.headers["user-agent"].startswith("enterprise-content-mirror/")
        assert "(Zo? X: y <ops@example.org>)" in request.headers["user-agent"]
