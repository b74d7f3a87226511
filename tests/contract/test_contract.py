"""What is known of the service for certain, asked of it: tokens, lists, parameters, errors, headers of downloads.

No download is asked for, and at most one lookup. Passwords are left alone.
"""

import json

import pytest

LISTS = ["/v2/codes", "/v2/languages", "/v2/projects", "/v2/namespaces", "/v2/snapshots"]


def error(answer):
    """Its status and message; the body is one object of two members."""
    assert (answer.json().keys(), answer.json()["status"]) == ({"message", "status"}, answer.status_code)
    return answer.status_code, answer.json()["message"]


def test_tokens(service):
    """Names alone are compared: a failure prints what was compared."""
    members, seconds = set(service.tokens), service.tokens["expires_in"]
    assert {"id_token", "access_token", "refresh_token", "expires_in"} <= members
    again = service.auth("token-refresh", username=service.username, refresh_token=service.tokens["refresh_token"])
    assert again.status_code == 200
    members, seconds = set(again.json()), [seconds, again.json()["expires_in"]]
    assert members == {"id_token", "access_token", "expires_in"}
    assert seconds == [86_400, 86_400]


def test_refusals_of_logins_do_not_say_why(service):
    nobody = service.auth("login", username="nobody-of-this-name-9f3a", password="Wrong-1234-no")
    assert error(nobody) == (401, "Incorrect username or password.")
    assert error(service.auth("login", username="a")) == (400, "missing username or password")


def test_the_account(service):
    user = service.user()
    counters = {f"{kind}_{what}" for kind in ("ondemand", "snapshot", "chunk") for what in ("requests_count", "limit")}
    assert counters | {"groups", "username"} <= user.keys()


@pytest.mark.parametrize("path", LISTS)
def test_lists_by_get_and_post_and_in_lines(service, path):
    whole = service.call(path)
    assert whole.status_code == 200
    key = "identifier"
    names = sorted(str(record[key]) for record in whole.json())
    assert names
    assert sorted(str(record[key]) for record in service.records(path)) == names
    lines = service.call(path, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert sorted(str(json.loads(line)[key]) for line in lines) == names
    assert service.records(path, fields=["identifier"])[0].keys() == {"identifier"}


def test_parameters_as_the_service_reads_them(service):
    chosen = service.call("/v2/projects", params=[("fields", "identifier"), ("fields", "code")]).json()
    assert chosen[0].keys() == {"identifier", "code"}
    condition = {"field": "identifier", "value": "enwiki"}
    for found in (
        service.call("/v2/projects", params={"filters": json.dumps(condition)}).json(),
        service.records("/v2/projects", filters=[condition]),
    ):
        assert [record["identifier"] for record in found] == ["enwiki"]
    assert service.call("/v2/codes", params={"filters": json.dumps([condition])}).status_code == 422
    assert service.call("/v2/codes", "POST", json={"fields": "name"}).status_code == 422
    ignored = service.call("/v2/codes", "POST", data=json.dumps({"fields": ["name"]}))
    assert "identifier" in ignored.json()[0]


def test_errors(service):
    assert error(service.call("/v2/nothing")) == (404, "Not Found")
    status, message = error(service.call("/v2/codes/nothing"))
    assert (status, message.partition(":")[0]) == (404, "NoSuchKey")
    assert error(service.call("/v2/articles/Earth?limit=11")) == (422, "limit cannot be greater than 10")
    assert error(service.session.get(f"{service.base_url}/v2/codes", timeout=60))[0] == 401
    assert error(service.call("/v2/codes", headers={"Authorization": "Bearer wrong"}))[0] == 401


def test_the_headers_of_a_download_cost_nothing(service):
    before, record = service.user()["snapshot_requests_count"], service.snapshots[0]
    head = service.call(f"/v2/snapshots/{record['identifier']}/download", "HEAD")
    assert (head.status_code, head.headers["Accept-Ranges"]) == (200, "bytes")
    assert abs(int(head.headers["Content-Length"]) / 1_000_000 - record["size"]["value"]) < 0.001
    assert len(record["version"]) == 32
    assert service.user()["snapshot_requests_count"] == before
