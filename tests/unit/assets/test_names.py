"""Names that the service does not have are refused, with the nearest; a real client, and a service on loopback."""

import json
import os
from datetime import UTC, datetime

import pytest

from resources import connection
from resources.connection import UnknownNameError
from resources.datasets import named
from resources.enterprise.errors import UnreachableError
from resources.lake import Layout
from tests.unit.enterprise.loopback import json_reply


@pytest.fixture
def check(bench):
    """`check(projects, namespaces, layout)`: the lists that the service is asked for."""

    def names(projects, namespaces=(0,), layout=bench.layout):
        before = len(bench.fake.api.seen("/v2/*"))
        connection.check_names(bench.client, layout, projects, namespaces)
        return [request.path for request in bench.fake.api.seen("/v2/*")[before:]]

    return names


def entries(*names):
    return [{"identifier": name} for name in names]


def test_names_of_archived_lists_cost_no_request_and_odd_entries_spoil_no_other(bench, check):
    assert check(["frwiki", "enwiki"], [14, 0]) == []
    with pytest.raises(UnknownNameError, match=r"^The service has no namespace 5 "):
        check(["enwiki"], [5])
    bench.layout.list_archive(named("projects")).write_text(json.dumps([*entries("enwiki", None, ["x"]), 7, {}]))
    bench.fake.close()
    assert check(["enwiki"]) == []


def test_unknown_names_are_told_in_one_sentence_with_the_nearest_and_ten_of_many_are_named(bench, check, tmp_path):
    empty = Layout(tmp_path / "empty")
    bench.fake.script("/v2/projects", json_reply(entries("enwiki", "frwiki")))
    with pytest.raises(UnknownNameError) as caught:
        check(["enwikki", "enwiki", "qqqqq", "frwik"], [0, 5], empty)
    assert str(caught.value) == (
        "The service has no project enwikki (did you mean enwiki?), qqqqq, frwik (did you mean frwiki?) and no "
        "namespace 5 (there are 0, 14). Nothing was fetched. Correct WME_PROJECTS or WME_NAMESPACES."
    )
    assert [request.path for request in bench.fake.api.seen("/v2/*")] == ["/v2/projects", "/v2/namespaces"]
    assert not empty.archive.exists()
    with pytest.raises(UnknownNameError, match=r"qq9q and 20 more\. Nothing"):
        check([f"qq{number}q" for number in range(30)])


def test_a_name_that_the_archived_list_does_not_know_may_be_new_or_that_of_an_odd_entry(bench, check):
    bench.know("projects", "enwiki")
    assert check(["frwiki"]) == ["/v2/projects"]
    bench.fake.script("/v2/projects", json_reply([*entries("frwiki"), {"name": "without identifier"}]))
    with pytest.raises(UnknownNameError, match=r"^The service has no namespace 5 "):
        check(["xxwiki"], [5])
    with pytest.raises(UnknownNameError):
        check(["xxwiki"])


@pytest.mark.parametrize("damaged", [b"", b"null", b"[1]", b'[{"name": "x"}]', b"\xff"])
def test_a_damaged_list_is_taken_for_none(bench, check, damaged):
    bench.layout.list_archive(named("projects")).write_bytes(damaged)
    assert check(["frwiki"]) == ["/v2/projects"]


def test_without_the_network_the_sentence_says_what_was_compared(bench, check, tmp_path):
    bench.fake.close()
    with pytest.raises(UnreachableError, match=r"The projects enwiki cannot be checked: the service's list"):
        check(["enwiki"], layout=Layout(tmp_path / "empty"))
    at = datetime(2026, 11, 20, 5, 6, tzinfo=UTC).timestamp()
    os.utime(bench.layout.list_archive(named("projects")), (at, at))
    told = r"did you mean enwiki\?.* is from 2026-11-20 05:06 UTC, and the service is "
    with pytest.raises(UnknownNameError, match=told):
        check(["enwiki", "enwikki"])
