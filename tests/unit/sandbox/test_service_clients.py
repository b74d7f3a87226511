"""The service as clients from elsewhere meet it: two hosts, slashes at the end, and answers as the description says."""

import socket
from functools import cache
from urllib.parse import quote, urlsplit

import jsonschema
import pytest
import requests

from tests.endpoints import OPERATIONS
from tests.unit.sandbox.conftest import wait_until

IDENTIFIERS = {"codes": "wiki", "languages": "dv", "projects": "frwiki", "namespaces": "0", "items": "Q681"}
IDENTIFIERS |= dict.fromkeys(("properties", "labels"), "P3")


def place_of(path):
    """A path of the sandbox for one of the description."""
    file = "wikidatawiki_namespace_0" if "wikidata" in path else "enwiki_namespace_0"
    parts = {"date": "2025-03-09", "hour": "05", "name": "Faichajan_shaistum", "chunk_identifier": "0"}
    parts |= {"identifier": IDENTIFIERS.get(path.split("/")[-2], file), "snapshot_identifier": file}
    return path.format(**parts)


#: A path of every operation with records, by the path of the description.
PLACES = {
    one.path: place_of(one.path)
    for one in OPERATIONS
    if one.path.startswith("/v2/") and one.tag != "Streams" and not one.path.endswith(("/status", "/download"))
}
DOWNLOADS = [
    f"{PLACES[place]}/download" for place in PLACES if place.endswith(("hour}/{identifier}", "chunk_identifier}"))
]


@pytest.fixture(scope="module")
def description(real):
    """The schema of an answer, by path, method and status."""
    document = real.call("/spec").json()

    @cache
    def validator(place, method, status):
        described = document["paths"][place][method.lower()]["responses"][str(status)]
        if "$ref" in described:
            described = document["components"]["responses"][described["$ref"].rpartition("/")[2]]
        schema = {**described["content"]["application/json"]["schema"], "components": document["components"]}
        return jsonschema.Draft202012Validator(schema)

    return validator


def check(description, place, method, answer):
    """Validate an answer by the schema that the description has for it."""
    description(place, method, answer.status_code).validate(answer.json())


def test_a_wrong_answer_would_be_noticed(real, description):
    with pytest.raises(jsonschema.ValidationError):
        check(description, "/v2/projects", "GET", real.call("/v2/namespaces"))


def members(value, before=""):
    """The dotted names of all members that a record has."""
    found = set()
    if isinstance(value, dict):
        for key, below in value.items():
            found |= {before + key} | members(below, f"{before}{key}.")
    return found


@pytest.mark.parametrize("place", PLACES)
def test_answers_are_as_described_whatever_fields_are_asked_for(real, description, place):
    path = PLACES[place]
    for method in ("GET", "POST"):
        answer = real.call(path, method)
        check(description, place, method, answer)
        whole = answer.json()[0] if isinstance(answer.json(), list) else answer.json()
        # every fourth member, others by GET than by POST
        for name in [*sorted(members(whole)), "nothing"][2 * (method == "POST") :: 4]:
            if method == "GET":
                answer = real.call(f"{path}?fields={quote(name)}")
            else:
                answer = real.call(path, method, json={"fields": [name]})
            check(description, place, method, answer)
    refused = real.call(path, "POST", json={"fields": "name"})
    assert refused.status_code == 422
    check(description, place, "POST", refused)


@pytest.mark.parametrize(
    "path", [*(path for place, path in PLACES.items() if "{name}" not in place), "/v2/status", "/v1/status", "/healthz"]
)
def test_a_slash_at_the_end_makes_no_other_path(real, path):
    for method in ("GET", "POST"):
        plain, slashed = (real.call(spelt, method) for spelt in (path, f"{path}/"))
        assert plain.status_code == slashed.status_code
        assert plain.headers.get("Content-Type") == slashed.headers.get("Content-Type")
        assert plain.status_code != 200 or plain.content == slashed.content
    if path in ("/v2/projects", "/v2/status"):
        real.sandbox.faults.add(path=path, kind="status", status=503)
        assert real.call(f"{path}/").status_code == 503


class KeepsTheTokenWithinAHost(requests.Session):
    """A client that compares host names alone, and not their ports, before it sends its token on."""

    def rebuild_auth(self, prepared_request, response):
        if urlsplit(prepared_request.url).hostname != urlsplit(response.request.url).hostname:
            prepared_request.headers.pop("Authorization", None)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("path", DOWNLOADS)
def test_downloads_come_from_another_host_by_whatever_name_the_service_is_called(real, path, name):
    url = real.sandbox.url.replace("127.0.0.1", name)
    assert urlsplit(real.sandbox.url).hostname == "127.0.0.1"
    with KeepsTheTokenWithinAHost() as session:
        session.trust_env = False
        answer = session.get(url + path, headers={"Authorization": f"Bearer {real.token}"}, timeout=120)
    assert answer.status_code == 200, answer.text
    assert {urlsplit(answer.url).hostname, name} == {"127.0.0.1", "localhost"}


def has_ipv6():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    "address", ["127.0.0.1", pytest.param("[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6"))]
)
def test_both_ports_answer_on_both_addresses_of_localhost(real, address):
    location = urlsplit(real.signed(DOWNLOADS[0]))
    for port, path, status in (
        (urlsplit(real.sandbox.url).port, "/v2/status", 200),
        (location.port, f"{location.path}?{location.query}", 200),
        (location.port, location.path, 403),
    ):
        assert requests.get(f"http://{address}:{port}{path}", timeout=120).status_code == status
    identity = requests.get(f"http://{address}:{urlsplit(real.sandbox.url).port}/sandbox/identity", timeout=120)
    assert identity.json()["object_url"] == real.sandbox.object_url


def test_a_request_whose_client_leaves_early_is_spent_and_in_the_log(client):
    client.login()
    host = urlsplit(client.sandbox.url)
    head = [f"POST {PLACES['/v2/articles/{name}']} HTTP/1.1", f"Host: {host.netloc}", "Content-Length: 2"]
    with socket.create_connection((host.hostname, host.port), timeout=120) as connection:
        connection.sendall("\r\n".join([*head, f"Authorization: Bearer {client.token}", "", ""]).encode())
    wait_until(lambda: client.sandbox.requests[-1].path == PLACES["/v2/articles/{name}"])
    assert client.sandbox.requests[-1].status == 499
    user = client.sandbox.accounts.identify(client.token)
    assert client.sandbox.accounts.quotas.of(user, "ondemand").used == 1
