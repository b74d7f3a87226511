"""The controls under `/sandbox/`, the interface description, and the log of requests."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from resources.sandbox.api.middleware import Journal, Seen
from resources.sandbox.clock import Clock


def control(client, method, path, **options):
    return client.session.request(method, f"{client.sandbox.url}/sandbox/{path}", timeout=120, **options)


def test_identity(client):
    told = control(client, "GET", "identity").json()
    assert told == {
        "identity": client.sandbox.settings.identity,
        "pid": os.getpid(),
        "url": client.sandbox.url,
        "object_url": client.sandbox.object_url,
        "realtime_url": client.sandbox.realtime_url,
        "now": "2025-03-09T07:30:00+00:00",
    }


def test_hours(client):
    """The two hours are listed, and those beside them are not."""
    for moment in ("2025-03-09T07:30:00Z", "2025-03-09T07:04:00Z", "2025-03-09T07:00:00Z", "2025-03-09T00:01:00Z"):
        control(client, "POST", "clock", json={"set": moment})
        client.login()
        told = control(client, "GET", "hours").json()
        for end, step in (("oldest", -1), ("newest", 1)):
            hour = datetime.strptime(told[end], "%Y-%m-%d/%H").replace(tzinfo=UTC)
            beside = hour + timedelta(hours=step)
            assert client.call(f"/v2/batches/{told[end]}").status_code == 200
            assert client.call(f"/v2/batches/{beside:%Y-%m-%d/%H}").status_code == 404


def test_clock(client):
    assert control(client, "GET", "clock").json() == {"now": "2025-03-09T07:30:00+00:00", "frozen": True}
    assert control(client, "POST", "clock", json={"advance_seconds": 90}).json()["now"] == "2025-03-09T07:31:30+00:00"
    moved = control(client, "POST", "clock", json={"set": "2025-04-01T00:00:00Z"}).json()
    assert moved["now"] == client.sandbox.clock.now().isoformat() == "2025-04-01T00:00:00+00:00"
    assert control(client, "POST", "clock", json={"release": True}).json()["frozen"] is False
    for wrong in ({"set": "soon"}, {"set": "2025-04-01T00:00:00"}, {"advance_seconds": "x"}, [1]):
        assert control(client, "POST", "clock", json=wrong).status_code == 422


def test_answers_carry_the_sandboxs_own_date(client):
    control(client, "POST", "clock", json={"set": "2025-04-01T12:00:00+02:00"})
    answers = [client.call("/v2/codes"), client.call("/v2/nothing")]
    assert {answer.headers["date"] for answer in answers} == {"Tue, 01 Apr 2025 10:00:00 GMT"}


def test_requests(client):
    client.call("/v2/codes")
    client.call("/v2/projects?fields=name", "POST")
    assert control(client, "GET", "requests").json() == [["GET", "/v2/codes", 200], ["POST", "/v2/projects", 200]]
    assert control(client, "DELETE", "requests").status_code == 204
    assert list(client.sandbox.requests) == []


def test_limits(client):
    assert control(client, "POST", "limits", json={"per_second": 0.0001, "burst": 1}).status_code == 204
    assert [client.call("/v2/codes").status_code for _ in range(2)] == [200, 429]
    assert control(client, "POST", "limits", json={"per_second": None}).status_code == 204
    assert client.call("/v2/codes").status_code == 200
    assert control(client, "POST", "limits", json={}).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("clock", '{"set": "9999-12-31T23:59:59Z"}'), ("clock", '{"set": "0001-01-01T00:00:00Z"}'),
        ("clock", '{"advance_seconds": 1e30}'), ("clock", '{"advance_seconds": 1e10}'),
        ("clock", '{"advance_seconds": NaN}'), ("limits", '{"per_second": "x"}'),
        ("limits", '{"per_second": 1, "burst": []}'), ("faults", '{"kind": "delay", "seconds": "x"}'),
        ("faults", '{"kind": "cut", "after": true}'), ("faults", '{"kind": "status", "status": 299}'),
        ("faults", '{"kind": "html", "path": 3}'), ("accounts", "[" * 100_000), ("faults", '{"a":' * 100_000),
        ("faults", "9" * 5_000), ("tokens", "\xff"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_what_cannot_be_read_is_a_422_and_changes_nothing(client, path, body):
    answer = control(client, "POST", path, data=body.encode("latin-1"))
    assert answer.status_code == 422, answer.text
    assert control(client, "GET", "clock").json()["now"] == "2025-03-09T07:30:00+00:00"
    assert control(client, "GET", "faults").json() == []
    assert [client.call("/v2/codes").status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("path", ["/v2/projects", "/v1/login", "/v1/change-password"])
def test_a_body_that_is_nested_without_end_is_a_422(client, path):
    answer = client.call(path, "POST", data="[" * 100_000, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


@pytest.mark.parametrize(("method", "path"), [("GET", "nothing"), ("PUT", "clock"), ("POST", "identity")])
def test_unknown_controls(client, method, path):
    assert control(client, method, path).status_code == 404


def test_stop_is_asked_for_and_nobody_joins_any_more(make_client):
    client = make_client()
    assert not client.sandbox.stopped.is_set()
    assert control(client, "POST", "stop").status_code == 204
    assert client.sandbox.stopped.is_set()
    assert control(client, "GET", "identity").status_code == 503


def test_the_log_has_a_bound_and_no_query(client, monkeypatch):
    monkeypatch.setattr("resources.sandbox.api.middleware._LONGEST", 10)
    log = Journal(Clock()).requests
    log.extend(Seen("GET", f"/{number}", 200) for number in range(14))
    assert [seen.path for seen in log] == [f"/{number}" for number in range(4, 14)]
    client.fetch(client.signed(client.DOWNLOAD))
    assert not any("?" in seen.path or "Signature" in seen.path for seen in client.sandbox.requests)


def test_idleness(client):
    journal = Journal(Clock())
    assert journal.idle_seconds() < 5
    journal._last -= 100
    assert journal.idle_seconds() >= 100
    journal._count(1)
    journal._last -= 100
    assert journal.idle_seconds() == 0
    client.sandbox.journal._last -= 100
    control(client, "GET", "identity")
    assert client.sandbox.journal.idle_seconds() < 50
