"""Lookups by the client at the sandbox: what they find, what they cost, and how they keep to a rate limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from resources.enterprise import EnterpriseClient, Query, Service
from tests.integration.clients import PASSWORD, QUICK


@pytest.fixture
def names(sandbox):
    """Titles of enwiki at the end of the newest hour."""
    hour = sandbox.clock.now().replace(minute=0) - timedelta(hours=1)
    moment = sandbox.world.export_started_at("enwiki", hour)
    writer = sandbox.world._wiki("enwiki").writer
    return [writer.name(event.title) for event in sandbox.world.pages_at("enwiki", 0, moment)]


def units(client):
    return client.account.user().quotas["ondemand"].used


@pytest.fixture
def many(sandbox, account, tmp_path, names):
    """Looks up so many titles in eight threads over one pool, at most so many a second.

    Returns the refusals there were.
    """
    url = sandbox.url
    service = Service(auth_url=url, base_url=url, realtime_url=url, username=account, password=PASSWORD)

    def look_up(count, per_second, prepare):
        retry = replace(QUICK, requests_per_second=per_second, retries=8, longest_wait=0.5)
        with EnterpriseClient(service, tmp_path, clock=sandbox.clock.now, retry=retry) as client:
            client.account.login()
            prepare()
            sandbox.requests.clear()
            query = Query(fields=("name",), limit=1)
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(lambda n: client.lookups.articles(names[n % len(names)], query), range(count)))
            assert [listing.records[0]["name"] for listing in found] == [names[n % len(names)] for n in range(count)]
            sandbox.rate.set(None)
            refused = sum(seen.status == 429 and seen.path.startswith("/v2/articles/") for seen in sandbox.requests)
            assert units(client) == count
            return refused

    return look_up


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_lookups_keep_to_a_limit_that_is_known(sandbox, many, count):
    # requests that were held up arrive together, at most as many as there are threads
    assert many(count, 100.0, lambda: sandbox.rate.set(100.0, burst=10)) == 0


def test_refusals_are_recovered_from_where_it_is_not_known(sandbox, many):
    assert many(60, None, lambda: sandbox.faults.add(path="/v2/articles/*", kind="status", status=429, count=12)) == 12


@pytest.mark.soak
def test_a_thousand_lookups_learn_the_limit(sandbox, many):
    assert many(1000, None, lambda: sandbox.rate.set(50.0, burst=2)) > 0
