"""The client against the sandbox: both were written from the service's description, neither from the other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resources.enterprise import errors
from tests.intact import is_intact


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


def downloads(sandbox):
    return sum(s.path.endswith("/download") for s in sandbox.requests)


# --- lists and downloads ----------------------------------------------------------------------------------------------


def test_reference_lists_parse(client):
    for kind in ("codes", "languages", "projects", "namespaces"):
        listing = client.lists.reference(kind)
        assert len(listing) > 0
        assert len({r.identifier for r in listing}) == len(listing)


def test_a_whole_hour_is_one_request_per_file(client, sandbox, hour, tmp_path):
    listing = client.hours.listing(hour)
    sandbox.requests.clear()
    for record in listing:
        done = client.hours.download(hour, record, tmp_path / record.identifier)
        assert (done.unit_count, done.version, is_intact(done.path)) == (1, record.version, True)
        assert abs(done.size_bytes - record.approximate_bytes) <= 500
    assert downloads(sandbox) == len(listing)
    assert client.hours.record(hour, listing.records[0].identifier) == listing.records[0]


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "units"),
    [
        ({"kind": "cut", "count": 3}, 1),
        ({"kind": "length", "delta": -7}, 2),
        ({"kind": "expired"}, 2),
        ({"kind": "gzip_truncated"}, 2),
        ({"kind": "status", "status": 401}, 2),
        ({"kind": "status", "status": 429, "retry_after": 86400}, 2),
    ],
    ids=str,
)
def test_faults_that_heal_cost_requests_and_nothing_else(client, sandbox, hour, record, target, fault, units):
    sandbox.faults.add(path="*/download", **fault)
    done = client.hours.download(hour, record, target)
    assert is_intact(target)
    assert done.version == record.version
    assert done.unit_count == units
    assert sorted(p.name for p in target.parent.iterdir()) == [target.name, target.name + ".json"]


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
    assert [s.path for s in sandbox.requests].count("/v1/get-user") == 1
