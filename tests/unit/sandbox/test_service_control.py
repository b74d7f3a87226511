"""The controls under `/sandbox/`, the interface description, and the log of requests."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from resources.sandbox.api.middleware import Journal, Seen
from resources.sandbox.clock import Clock
from tests.unit.sandbox.conftest import small_sandbox


def set_clock(client, **how):
    return client.call("/sandbox/clock", "POST", json=how).json()


def test_identity(client):
    assert client.call("/sandbox/identity").json() == {
        "identity": client.sandbox.settings.identity,
        "pid": os.getpid(),
        "url": client.sandbox.url,
        "object_url": client.sandbox.object_url,
        "realtime_url": client.sandbox.realtime_url,
        "now": "2025-03-09T07:30:00+00:00",
    }


def test_the_two_hours_that_are_told_are_listed_and_those_beside_them_are_not(client):
    for moment in ("2025-03-09T07:30:00Z", "2025-03-09T07:04:00Z", "2025-03-09T07:00:00Z", "2025-03-09T00:01:00Z"):
        set_clock(client, set=moment)
        client.login()
        told = client.call("/sandbox/hours").json()
        for end, step in (("oldest", -1), ("newest", 1)):
            hour = datetime.strptime(told[end], "%Y-%m-%d/%H").replace(tzinfo=UTC)
            beside = hour + timedelta(hours=step)
            assert client.call(f"/v2/batches/{told[end]}").status_code == 200
            assert client.call(f"/v2/batches/{beside:%Y-%m-%d/%H}").status_code == 404


def test_the_clock_and_the_date_of_answers(client):
    assert client.call("/sandbox/clock").json() == {"now": "2025-03-09T07:30:00+00:00", "frozen": True}
    assert set_clock(client, advance_seconds=90)["now"] == "2025-03-09T07:31:30+00:00"
    moved = set_clock(client, set="2025-04-01T12:00:00+02:00")
    assert moved["now"] == client.sandbox.clock.now().isoformat() == "2025-04-01T10:00:00+00:00"
    answers = [client.call("/v2/codes"), client.call("/v2/nothing")]
    assert {answer.headers["date"] for answer in answers} == {"Tue, 01 Apr 2025 10:00:00 GMT"}
    assert set_clock(client, release=True)["frozen"] is False


def test_limits(client):
    assert client.call("/sandbox/limits", "POST", json={"per_second": 0.0001, "burst": 2}).status_code == 204
    answers = [client.call("/v2/codes") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert answers[-1].text == '{"status":429,"message":"Too Many Requests"}\n'
    assert "Retry-After" not in answers[-1].headers
    assert client.call("/sandbox/limits", "POST", json={"per_second": None}).status_code == 204
    assert client.call("/v2/codes").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("clock", '{"set": "9999-12-31T23:59:59Z"}'), ("clock", '{"set": "0001-01-01T00:00:00Z"}'),
        ("clock", '{"set": "soon"}'), ("clock", '{"set": "2025-04-01T00:00:00"}'), ("clock", "[1]"),
        ("clock", '{"advance_seconds": "x"}'), ("clock", '{"advance_seconds": 1e30}'),
        ("clock", '{"advance_seconds": 1e10}'), ("clock", '{"advance_seconds": NaN}'), ("limits", "{}"),
        ("limits", '{"per_second": "x"}'), ("limits", '{"per_second": 1, "burst": []}'),
        ("faults", '{"kind": "delay", "seconds": "x"}'), ("faults", '{"kind": "cut", "after": true}'),
        ("faults", '{"kind": "status", "status": 299}'), ("faults", '{"kind": "html", "path": 3}'),
        ("accounts", "[" * 100_000), ("faults", '{"a":' * 100_000), ("faults", "9" * 5_000), ("tokens", "\xff"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_what_cannot_be_read_is_a_422_and_changes_nothing(client, path, body):
    answer = client.call(f"/sandbox/{path}", "POST", data=body.encode("latin-1"))
    assert answer.status_code == 422, answer.text
    assert client.call("/sandbox/clock").json()["now"] == "2025-03-09T07:30:00+00:00"
    assert client.call("/sandbox/faults").json() == []
    assert [client.call("/v2/codes").status_code for _ in range(3)] == [200] * 3


def test_a_body_that_is_nested_without_end_is_a_422_and_an_unknown_control_a_404(client):
    for path in ("/v2/projects", "/v1/login", "/v1/change-password"):
        answer = client.call(path, "POST", data="[" * 100_000, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
    for method, path in (("GET", "nothing"), ("PUT", "clock"), ("POST", "identity")):
        assert client.call(f"/sandbox/{path}", method).status_code == 404


def test_stop_is_asked_for_and_nobody_joins_any_more(tmp_path, signing_key):
    with small_sandbox(tmp_path, signing_key) as client:
        assert not client.sandbox.stopped.is_set()
        assert client.call("/sandbox/stop", "POST").status_code == 204
        assert client.sandbox.stopped.is_set()
        assert client.call("/sandbox/identity").status_code == 503


def test_the_log_has_a_bound_and_no_query(client, monkeypatch):
    client.call("/v2/codes")
    client.call("/v2/projects?fields=name", "POST")
    assert client.call("/sandbox/requests").json() == [["GET", "/v2/codes", 200], ["POST", "/v2/projects", 200]]
    assert client.call("/sandbox/requests", "DELETE").status_code == 204
    assert list(client.sandbox.requests) == []
    client.fetch(client.signed(client.DOWNLOAD))
    assert not any("?" in seen.path or "Signature" in seen.path for seen in client.sandbox.requests)
    monkeypatch.setattr("resources.sandbox.api.middleware._LONGEST", 10)
    log = Journal(Clock()).requests
    log.extend(Seen("GET", f"/{number}", 200) for number in range(14))
    assert [seen.path for seen in log] == [f"/{number}" for number in range(4, 14)]


def test_idleness(client):
    journal = Journal(Clock())
    assert journal.idle_seconds() < 5
    journal._last -= 100
    assert journal.idle_seconds() >= 100
    journal._count(1)
    journal._last -= 100
    assert journal.idle_seconds() == 0
    client.sandbox.journal._last -= 100
    client.call("/sandbox/identity")
    assert client.sandbox.journal.idle_seconds() < 50
