"""The rate limit: so many at once, so many in the long run, for each user alone."""

from types import SimpleNamespace

import pytest

from resources.sandbox.accounts import database
from resources.sandbox.accounts.database import RateLimit


@pytest.fixture
def at(monkeypatch):
    """`at(seconds)`: what the clock shows from now on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def show(seconds):
        clock.now = seconds

    return show


@pytest.fixture
def rate():
    return RateLimit()


def test_a_burst_is_admitted_at_once_and_then_so_many_each_second(rate, at):
    rate.set(2, burst=3)
    assert [rate.admit("ada") for _ in range(5)] == [True, True, True, False, False]
    at(0.49)
    assert not rate.admit("ada")
    at(0.5)
    assert [rate.admit("ada") for _ in range(2)] == [True, False]


def test_a_request_that_was_refused_costs_nothing_and_who_waited_long_may_burst_and_no_more(rate, at):
    rate.set(1, burst=2)
    assert [rate.admit("ada") for _ in range(3)] == [True, True, False]
    for tenth in range(1, 10):
        at(tenth / 10)
        assert not rate.admit("ada")
    at(1.0001)
    assert rate.admit("ada")
    at(1000)
    assert [rate.admit("ada") for _ in range(4)] == [True, True, False, False]


def test_users_do_not_share_their_rate_and_a_new_limit_begins_anew(rate, at):
    rate.set(1)
    assert [rate.admit(name) for name in ("ada", "bob", "ada", "bob")] == [True, True, False, False]
    rate.set(1)
    assert rate.admit("ada")
    rate.set(None)
    assert all(rate.admit("ada") for _ in range(9))
