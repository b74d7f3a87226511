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


def test_so_many_are_admitted_at_once_and_then_each_second_and_what_was_refused_costs_nothing(at):
    rate = RateLimit()
    rate.set(2, burst=3)
    assert [rate.admit("ada") for _ in range(5)] == [True, True, True, False, False]
    for seconds in (0.1, 0.2, 0.3, 0.4, 0.49):
        at(seconds)
        assert not rate.admit("ada")
    at(0.5)
    assert [rate.admit("ada") for _ in range(2)] == [True, False]
    # who waited long may burst, and no more
    at(1000)
    assert [rate.admit("ada") for _ in range(5)] == [True, True, True, False, False]


def test_users_do_not_share_their_rate_and_a_new_limit_begins_anew(at):
    rate = RateLimit()
    rate.set(1)
    assert [rate.admit(name) for name in ("ada", "bob", "ada", "bob")] == [True, True, False, False]
    rate.set(1)
    assert rate.admit("ada")
    rate.set(None)
    assert all(rate.admit("ada") for _ in range(9))
