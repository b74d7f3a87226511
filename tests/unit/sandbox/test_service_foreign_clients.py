"""Requests in the form of clients that were written elsewhere."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import jwt
import pytest

from resources.sandbox.api.stream_parameters import _beginning


def test_a_query_of_255_filters_fits_into_the_address(client):
    one = quote(json.dumps({"field": "identifier", "value": "frwiki"}))
    path = "/v2/projects?" + "&".join([f"filters={one}"] * 255)
    assert [one["identifier"] for one in client.call(path).json()] == ["frwiki"]


@pytest.mark.parametrize("file", [None, "filters.json"])
def test_a_multipart_form_is_read_everywhere(client, file):
    only = json.dumps({"field": "identifier", "value": "frwiki"})
    form = {"fields": (None, "identifier"), "filters": (file, only)}
    assert client.call("/v2/projects", "POST", files=form).json() == [{"identifier": "frwiki"}]
    form = {"username": (None, "sandbox"), "password": (None, client.sandbox.password)}
    tokens = client.session.post(f"{client.sandbox.url}/v1/login", files=form, timeout=120).json()
    form = {"username": (None, "sandbox"), "refresh_token": (None, tokens["refresh_token"])}
    assert client.session.post(f"{client.sandbox.url}/v1/token-refresh", files=form, timeout=120).status_code == 200


@pytest.mark.parametrize(
    ("boundary", "body"),
    [
        ("x", b""), ("x", b"--x\r\n\r\n--x--"), ("x", b"--y--"), ("", b"--\r\n"), ("\xe9", b"\xff"),
        ("x", b"--x\r\n" * 9_000),
    ],
)  # fmt: skip
def test_a_multipart_form_that_is_none_holds_nothing(client, boundary, body):
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}".encode("latin-1")}
    assert len(client.call("/v2/projects", "POST", data=body, headers=headers).json()) == 2
    assert (
        client.session.post(
            f"{client.sandbox.url}/v1/token-refresh", data=body, headers=headers, timeout=120
        ).status_code
        == 422
    )


class TestGetUser:
    def ask(self, client, **options):
        return client.session.post(f"{client.sandbox.url}/v1/get-user", timeout=120, **options)

    def test_the_token_may_be_in_the_body_alone(self, client):
        body = {"access_token": client.token}
        for options in ({"json": body}, {"data": body}, {"files": {"access_token": (None, client.token)}}):
            assert self.ask(client, **options).json()["username"] == "sandbox"

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"access_token": 5}', b'{"access_token": "x"}'])
    def test_no_token_is_unauthorized(self, client, body):
        answer = self.ask(client, data=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 401

    def test_elsewhere_the_body_opens_nothing(self, client):
        token, client.token = client.token, ""
        assert client.call("/v2/projects", "POST", json={"access_token": token}).status_code == 401


def test_an_admitted_address_is_admitted_with_any_token(client):
    client.sandbox.accounts.admissions.admit("127.0.0.0/8", ["group_3"])
    token, client.token = client.token, "junk"
    assert client.call("/v2/projects").status_code == 200
    client.token = token
    client.sandbox.clock.advance(timedelta(days=2))
    assert client.call("/v2/projects").status_code == 200


@pytest.mark.parametrize("body", [{}, {"username": "sandbox"}, {"username": "", "password": "x"}, {"password": None}])
def test_a_login_without_credentials_is_a_bad_request(client, body):
    answer = client.auth("login", body)
    assert (answer.status_code, answer.json()) == (400, {"status": 400, "message": "missing username or password"})
    assert client.session.post(f"{client.sandbox.url}/v1/login", data=body, timeout=120).status_code == 400
    assert client.auth("token-refresh", {}).status_code == 422


def test_the_refresh_token_is_a_jwt_that_opens_nothing(client):
    token = client.login()["refresh_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 90 * 86_400
    assert token != client.login()["refresh_token"]
    client.token = token
    assert client.call("/v2/projects").status_code == 401


def test_the_address_of_an_account_can_be_changed(client):
    client.sandbox.accounts.create("ops@example.org", "Passw0rd-1!")  # an account may be called by one
    assert client.sandbox.accounts.user("ops@example.org").email == "ops@example.org"
    for email in ("first@example.org", "second@example.org"):
        answer = client.session.post(
            f"{client.sandbox.url}/sandbox/accounts", json={"username": "someone", "email": email}, timeout=120
        )
        assert answer.status_code == 200, answer.text
        assert client.sandbox.accounts.user("someone").email == email


def test_what_is_given_for_other_parts_is_dropped_before_it_is_compared():
    now, moment = datetime(2026, 11, 20, 5, tzinfo=UTC), "2026-11-20T04:00:00Z"
    body = {"parts": [0], "offsets": {"1": 7, "30": 9}, "since_per_partition": {"2": moment, "30": moment}}
    found = _beginning(body, now)
    assert (found.offsets, list(found.moments)) == ({1: 7}, [2])
