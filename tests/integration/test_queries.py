"""One query for every data endpoint of the sandbox, by GET and by POST: what is asked for comes, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resources.enterprise import Query, endpoints, errors

SNAPSHOT = "/v2/snapshots/enwiki_namespace_0"


@pytest.fixture
def paths(sandbox):
    """Lists with a filter that holds for some of their records, and single records."""
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    batches = f"/v2/batches/{hour:%Y-%m-%d}/{hour:%H}"
    english = {"is_part_of.identifier": "enwiki", "namespace.identifier": 0}
    lists = {
        **{endpoints.reference(kind): {"identifier": one} for kind, one in (("codes", "wiki"), ("languages", "fr"))},
        endpoints.reference("projects"): {"code": "wiki", "in_language.identifier": "fr"},
        endpoints.reference("namespaces"): {"name": "Category"},
        batches: english,
        "/v2/snapshots": english,
        endpoints.chunks(SNAPSHOT): english,
    }
    singles = [
        "/v2/codes/wiki", "/v2/languages/fr", "/v2/projects/frwiki", "/v2/namespaces/14",
        f"{batches}/enwiki_namespace_0", SNAPSHOT, f"{SNAPSHOT}/chunks/0",
    ]  # fmt: skip
    return lists, singles


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_fields_and_filters_of_every_list_and_record(client, sandbox, paths, method):
    lists, singles = paths
    for path, filters in lists.items():
        everything = client.lists.records(path)
        sandbox.requests.clear()
        chosen = client.lists.records(path, Query(fields=("identifier",), filters=filters, method=method))
        assert [(seen.method, seen.path) for seen in sandbox.requests] == [(method, path)]
        assert 0 < len(chosen) <= len(everything)
        assert len(chosen) < len(everything) or path.endswith("/chunks")
        assert {record["identifier"] for record in chosen} <= {record["identifier"] for record in everything}
        assert all(set(record.model_extra) == {"identifier"} for record in chosen)
        for record in everything:
            if record["identifier"] in {one["identifier"] for one in chosen}:
                assert all(at(record.model_extra, name) == value for name, value in filters.items())
    for path in singles:
        record = client.lists.record(path, Query(fields=("identifier",), method=method))
        assert set(record.model_extra) == {"identifier"}


def at(value, name):
    for piece in name.split("."):
        value = value[piece]
    return value


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_lookups_of_a_title(client, sandbox, method):
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    name = next(sandbox.world.truth("frwiki", 14, sandbox.world.export_started_at("frwiki", hour)))["name"]
    query = Query(
        fields=("name", "version.identifier", "categories.#.name"),
        filters={"is_part_of.identifier": "frwiki", "namespace.identifier": 14},
        limit=1,
        method=method,
    )
    [record] = client.lookups.articles(name, query)
    assert record["name"] == name
    assert set(record.model_extra) <= {"name", "version", "categories"}
    with pytest.raises(errors.NotFound, match="that matches the filters"):
        client.lookups.articles(name, Query(filters={"is_part_of.identifier": "enwiki"}, method=method))


# --- the account ------------------------------------------------------------------------------------------------------


def count(sandbox, path):
    return sum(seen.path == path for seen in sandbox.requests)


def test_admission_by_address_needs_no_token(make_client, sandbox):
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    client = make_client(anonymous=True, username=None, password=None)
    with pytest.raises(errors.AuthenticationError, match="does not accept this machine's IP address"):
        client.hours.listing(hour)
    sandbox.accounts.admissions.admit("127.0.0.0/8")
    try:
        assert len(client.hours.listing(hour)) > 0
    finally:
        sandbox.accounts.admissions.withdraw()
    assert count(sandbox, "/v1/login") == 0


def test_a_day_later_the_token_is_refreshed_and_at_the_end_there_is_a_login(client, sandbox, account):
    client.lists.reference("codes")
    sandbox.clock.advance(timedelta(hours=23, minutes=55))
    client.lists.reference("codes")
    assert (count(sandbox, "/v1/login"), count(sandbox, "/v1/token-refresh")) == (1, 1)
    sandbox.accounts.exhaust(account)
    sandbox.clock.advance(timedelta(days=1))
    client.lists.reference("codes")
    assert (count(sandbox, "/v1/login"), count(sandbox, "/v1/token-refresh")) == (2, 2)
    sandbox.clock.advance(timedelta(days=91))
    client.lists.reference("codes")
    assert (count(sandbox, "/v1/login"), count(sandbox, "/v1/token-refresh")) == (3, 2)
