"""Names that the service does not have are refused, with the nearest; a real client, and a service on loopback."""

import json
import os
import socket
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from resources import connection
from resources.datasets import named
from resources.enterprise import EnterpriseClient, RetryPolicy, Service
from resources.enterprise.errors import UnreachableError
from resources.enterprise.listing import OddRecord
from resources.lake import Layout
from resources.sandbox import Settings, running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(
        Settings(state=tmp_path_factory.mktemp("service"), projects=("enwiki",), changes_per_hour=10)
    ) as sandbox:
        yield sandbox


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "data")


@pytest.fixture
def client(service, tmp_path):
    username, password = f"u{os.urandom(4).hex()}", "Passw0rd-1!"
    service.accounts.create(username, password, groups=["group_3"])
    of = Service(auth_url=service.url, base_url=service.url, username=username, password=password)
    with EnterpriseClient(of, state=tmp_path / "state") as client:
        service.requests.clear()
        yield client


@pytest.fixture
def nowhere(tmp_path):
    """A client of a host that is not there."""
    with socket.socket() as held:
        # bound and not listening: nobody else answers there
        held.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
        of = Service(auth_url=address, base_url=address, anonymous=True)
        with EnterpriseClient(of, state=tmp_path / "nowhere", retry=RetryPolicy(retries=0)) as client:
            yield client


def archive(layout, **lists):
    for kind, known in lists.items():
        path = layout.list_archive(named(kind))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([{"identifier": name} for name in known]))


def asked(service):
    return [seen.path for seen in service.requests if seen.path.startswith("/v2/")]


def test_names_of_archived_lists_cost_no_request_and_odd_entries_spoil_no_other(client, service, layout, nowhere):
    archive(layout, projects=["enwiki", "frwiki"], namespaces=[0, 14])
    for one in (client, nowhere):
        connection.check_names(one, layout, ["frwiki", "enwiki"], [14, 0])
    assert asked(service) == []
    archive(layout, projects=["enwiki", None, ["x"]], namespaces=[0])
    path = layout.list_archive(named("projects"))
    path.write_text(json.dumps([*json.loads(path.read_text()), 7, {}]))
    connection.check_names(nowhere, layout, ["enwiki"], [0])


def test_unknown_names_are_told_in_one_sentence_with_the_nearest_and_ten_of_many_are_named(client, service, layout):
    with pytest.raises(connection.UnknownNameError) as caught:
        connection.check_names(client, layout, ["enwikki", "enwiki", "qqqqq", "frwik"], [0, 5])
    assert str(caught.value) == (
        "The service has no project enwikki (did you mean enwiki?), qqqqq, frwik (did you mean frwiki?) and no "
        "namespace 5 (there are 0, 6, 10, 14). Nothing was fetched. Correct WME_PROJECTS or WME_NAMESPACES."
    )
    assert asked(service) == ["/v2/projects", "/v2/namespaces"]
    assert not layout.archive.exists()
    with pytest.raises(connection.UnknownNameError, match=r"qq9q and 20 more\. Nothing"):
        connection.check_names(client, layout, [f"qq{number}q" for number in range(30)])


def test_a_name_that_the_archived_list_does_not_know_may_be_new(client, service, layout):
    archive(layout, projects=["frwiki"], namespaces=[0])
    connection.check_names(client, layout, ["enwiki"], [0])
    assert asked(service) == ["/v2/projects"]


def test_a_name_that_may_be_that_of_an_odd_entry_is_not_refused(service, client, layout, tmp_path):
    with EnterpriseClient(client.service, state=tmp_path / "state") as odd:
        read = odd.lists.reference
        odd_records = (OddRecord("record 5", "identifier: Field required"),)
        odd.lists.reference = lambda kind: replace(read(kind), odd=odd_records)
        connection.check_names(odd, layout, ["xxwiki"], [0])
    with pytest.raises(connection.UnknownNameError):
        connection.check_names(client, layout, ["xxwiki"], [0])


@pytest.mark.parametrize("damaged", [b"", b"null", b"[1]", b'[{"name": "x"}]', b"\xff"])
def test_a_damaged_list_is_taken_for_none(client, layout, damaged):
    archive(layout, projects=[], namespaces=[0])
    layout.list_archive(named("projects")).write_bytes(damaged)
    connection.check_names(client, layout, ["enwiki"], [0])


def test_without_the_network_the_sentence_says_what_was_compared(nowhere, layout):
    with pytest.raises(UnreachableError, match=r"The projects enwiki cannot be checked: the service's list"):
        connection.check_names(nowhere, layout, ["enwiki"], [0])
    archive(layout, projects=["enwiki"], namespaces=[0])
    at = datetime(2026, 11, 20, 5, 6, tzinfo=UTC).timestamp()
    os.utime(layout.list_archive(named("projects")), (at, at))
    with pytest.raises(
        connection.UnknownNameError, match=r"did you mean enwiki\?.* is from 2026-11-20 05:06 UTC, and the service is "
    ):
        connection.check_names(nowhere, layout, ["enwiki", "enwikki"], [0])
