"""Requests in the form of clients that were written elsewhere."""

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
    tokens = client.call("/v1/login", "POST", files=form).json()
    form = {"username": (None, "sandbox"), "refresh_token": (None, tokens["refresh_token"])}
    assert client.call("/v1/token-refresh", "POST", files=form).status_code == 200


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
    assert client.call("/v1/token-refresh", "POST", data=body, headers=headers).status_code == 422


def test_the_token_of_a_question_for_the_account_may_be_in_the_body_alone(client):
    token, client.token = client.token, ""
    body = {"access_token": token}
    for options in ({"json": body}, {"data": body}, {"files": {"access_token": (None, token)}}):
        assert client.call("/v1/get-user", "POST", **options).json()["username"] == "sandbox"
    for wrong in (b"", b"{", b"[]", b'{"access_token": 5}', b'{"access_token": "x"}'):
        answer = client.call("/v1/get-user", "POST", data=wrong, headers={"Content-Type": "application/json"})
        assert answer.status_code == 401
    # elsewhere the body opens nothing
    assert client.call("/v2/projects", "POST", json=body).status_code == 401


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
    assert client.call("/v1/login", "POST", data=body).status_code == 400


def test_the_refresh_token_is_a_jwt_that_opens_nothing(client):
    token = client.login()["refresh_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 90 * 86_400
    assert token != client.login()["refresh_token"]
    client.token = token
    assert client.call("/v2/projects").status_code == 401


def test_what_is_given_for_other_parts_is_dropped_before_it_is_compared():
    now, moment = datetime(2026, 11, 20, 5, tzinfo=UTC), "2026-11-20T04:00:00Z"
    body = {"parts": [0], "offsets": {"1": 7, "30": 9}, "since_per_partition": {"2": moment, "30": moment}}
    found = _beginning(body, now)
    assert (found.offsets, list(found.moments)) == ({1: 7}, [2])
