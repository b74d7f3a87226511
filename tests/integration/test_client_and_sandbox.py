"""The client against the sandbox: both were written from the service's description, neither from the other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from resources.enterprise import Ranges, errors, is_intact

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hour(sandbox):
    now = sandbox.clock.now()
    return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)


@pytest.fixture
def record(client, hour, sandbox):
    found = next(r for r in client.hours.listing(hour) if r.identifier == "enwiki_namespace_0")
    sandbox.requests.clear()
    return found


@pytest.fixture
def target(tmp_path, record):
    return tmp_path / "archive" / f"{record.identifier}.{record.version[:8]}.tar.gz"


def count(sandbox, path, method=None):
    return sum(s.path == path and method in {None, s.method} for s in sandbox.requests)


def downloads(sandbox):
    return sum(s.path.endswith("/download") for s in sandbox.requests)


def only_landed(target):
    assert sorted(p.name for p in target.parent.iterdir()) == [target.name, target.name + ".json"]


# --- lists and downloads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["codes", "languages", "projects", "namespaces"])
def test_reference_lists_parse(client, kind):
    listing = client.lists.reference(kind)
    assert len(listing) > 0
    assert len({r.identifier for r in listing}) == len(listing)


def test_a_whole_hour_is_one_request_per_file(client, sandbox, hour, tmp_path):
    listing = client.hours.listing(hour)
    sandbox.requests.clear()
    for record in listing:
        done = client.hours.download(hour, record, tmp_path / record.identifier)
        assert (done.request_count, done.version, is_intact(done.path)) == (1, record.version, True)
        assert abs(done.size_bytes - record.approximate_bytes) <= 500
    assert downloads(sandbox) == len(listing)
    assert client.hours.record(hour, listing.records[0].identifier) == listing.records[0]


def test_ranges_are_served_from_one_address(make_client, sandbox, hour, record, target):
    client = make_client(ranges=Ranges(connections=4, parallel_bytes=10_000, smallest_bytes=5_000))
    assert client.hours.download(hour, record, target).request_count == 1
    assert sum(s.status == 206 for s in sandbox.requests) == 4
    assert is_intact(target)


def test_a_batch_past_its_retention_is_gone_for_good(client, hour, record, target, sandbox):
    sandbox.clock.advance(timedelta(days=3))
    with pytest.raises(errors.RetentionPassed):
        client.hours.download(hour, record, target)
    assert not target.exists()


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        ({"kind": "cut", "count": 3}, 1),
        ({"kind": "length", "delta": -7}, 3),
        ({"kind": "expired"}, 2),
        ({"kind": "gzip_truncated"}, 3),
        ({"kind": "status", "status": 401}, 2),
        ({"kind": "status", "status": 429, "retry_after": 86400}, 2),
    ],
    ids=str,
)
def test_faults_that_heal_cost_requests_and_nothing_else(client, sandbox, hour, record, target, fault, requests):
    sandbox.faults.add(path="*/download", **fault)
    done = client.hours.download(hour, record, target)
    assert is_intact(target)
    assert done.version == record.version
    assert done.request_count == requests
    only_landed(target)


# --- the account ------------------------------------------------------------------------------------------------------


def test_groups_decide(client, sandbox, account, hour):
    sandbox.accounts.set_groups(account, ["group_1"])
    with pytest.raises(errors.Forbidden, match="group"):
        client.hours.listing(hour)
    assert client.account.user().groups == ("group_1",)


def test_a_spent_limit_that_the_account_tells_is_no_rate_limit(client, sandbox, account, hour, record, target):
    sandbox.accounts.set_quota(account, "batch", limit=5, used=5)
    with pytest.raises(errors.QuotaExceeded, match="5 of its 5 batch units"):
        client.hours.download(hour, record, target)
    assert downloads(sandbox) == 1  # waiting would not help, so nothing is tried again
    assert count(sandbox, "/v1/get-user") == 1


def test_admission_by_address_needs_no_token(make_client, sandbox, hour):
    client = make_client(anonymous=True, username=None, password=None)
    with pytest.raises(errors.AuthenticationError, match="does not admit"):
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
