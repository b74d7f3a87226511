"""The service as clients from elsewhere meet it: two hosts, slashes at the end, and answers as the description says."""

import json
import socket
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import requests

from resources.sandbox.api.app import OPERATIONS as SERVED
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
_DATA = [one.path for one in OPERATIONS if one.path.startswith("/v2/") and one.tag != "Streams"]
PLACES = {path: place_of(path) for path in _DATA if not path.endswith(("/status", "/download"))}
_FILES = ("hour}/{identifier}", "chunk_identifier}")
DOWNLOADS = [f"{PLACES[place]}/download" for place in PLACES if place.endswith(_FILES)]


def filter_texts():
    """A filter as a query has it: the text of one JSON object."""
    from hypothesis import strategies as st

    values = st.none() | st.booleans() | st.integers(-9, 10**6) | st.text(max_size=9)
    fields = ["identifier", "is_part_of.identifier", "namespace.identifier", "size.value", "nothing", ""]
    return st.builds(lambda field, value: json.dumps({"field": field, "value": value}), st.sampled_from(fields), values)


def served(document):
    """The description without what the sandbox does not serve."""
    for item in document["paths"].values():
        for method in [name for name in item if "x-not-served" in item[name]]:
            del item[method]
        for parameter in item.get("get", {}).get("parameters", []):
            if "maxItems" in parameter["schema"]:
                # a request line of 64 kB is refused by the server before the sandbox reads it
                parameter["schema"]["maxItems"] = 5
    return document


@pytest.fixture(scope="module")
def api(real):
    # a second of a processor, and every worker collects this file: what it brings is imported where it is used
    import schemathesis

    schemathesis.openapi.format("filter", filter_texts())
    return schemathesis.openapi.from_dict(served(real.call("/spec").json()))


def members(value, before=""):
    """The dotted names of all members that a record has."""
    found = set()
    if isinstance(value, dict):
        for key, below in value.items():
            found |= {before + key} | members(below, f"{before}{key}.")
    return found


@pytest.mark.parametrize("times", [1, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("path", "method"), sorted((one.path, method) for one in SERVED for method in one.methods))
def test_answers_are_as_described(api, real, path, method, times):
    """Requests as the schemas allow and as they do not, and in long runs as the examples: so many of each."""
    from hypothesis import HealthCheck, Phase, assume, given, settings
    from hypothesis import strategies as st
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import negative_data_rejection, unsupported_method

    # a method that a path has not is a 404 like any other, not a 405
    left_out = [unsupported_method]
    if not path.startswith("/v1/"):
        # the service takes what it cannot use (null, an object as the value of a filter) as if it were not there
        left_out.append(negative_data_rejection)
    operation = api[path][method]
    kinds = [operation.as_strategy(), operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)]
    if times > 1:
        kinds += operation.get_strategies_from_examples()
    asked = 0

    @settings(
        max_examples=times * len(kinds), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=st.one_of(kinds))
    def ask(case):
        nonlocal asked
        # the service's decoder takes 10.0 for no whole number, which no schema can say
        assume(not (isinstance(case.body, dict) and isinstance(case.body.get("limit"), float)))
        assume("wikidata" not in (case.path_parameters or {}).values())
        asked += 1
        how = {"headers": {"Authorization": f"Bearer {real.token}"}, "allow_redirects": False}
        case.call_and_validate(real.sandbox.url, real.session, excluded_checks=left_out, **how)

    ask()
    assert asked or not operation.get_request_payload_content_types() + list(operation.iter_parameters())


@pytest.mark.parametrize("place", PLACES)
def test_answers_are_as_described_whatever_fields_are_asked_for(api, real, place):
    path = PLACES[place]
    for method in ("GET", "POST"):
        answer = real.call(path, method)
        assert answer.status_code == 200
        whole = answer.json()[0] if isinstance(answer.json(), list) else answer.json()
        # every fourth member, others by GET than by POST
        names = [*sorted(members(whole)), "nothing"][2 * (method == "POST") :: 4]
        if method == "GET":
            more = [real.call(f"{path}?fields={quote(name)}") for name in names]
        else:
            more = [real.call(path, method, json={"fields": fields}) for fields in [*([name] for name in names), "x"]]
            assert more[-1].status_code == 422
        for one in (answer, *more):
            api[place][method].validate_response(one)


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


ADDRESSES = ["127.0.0.1", *("[::1]" for path in Path("/proc/net").glob("if_inet6") if " lo\n" in path.read_text())]


@pytest.mark.parametrize("address", ADDRESSES)
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
    # a port can be bound again at once, and with an explicit protocol asyncio sends small answers without delay
    kinds = {(one.proto, one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)) for one in real.sandbox._sockets[0]}
    assert kinds == {(socket.IPPROTO_TCP, 1)}


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
