import datetime as dt
import random
from contextlib import ExitStack

import pytest

from resources.enterprise import EnterpriseClient, RetryPolicy, models
from tests.unit.enterprise.fake_service import FakeService

HOUR = dt.datetime(2026, 11, 1, 5, tzinfo=dt.UTC)
QUICK = RetryPolicy(retries=3, first_wait=0.001, longest_wait=0.01, connect_timeout=55, read_timeout=60)


class Clock:
    def __init__(self):
        self.now = HOUR + dt.timedelta(hours=1, minutes=10)

    def __call__(self):
        return self.now

    def advance(self, **parts):
        self.now += dt.timedelta(**parts)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fake(clock):
    with FakeService(clock) as service:
        yield service


@pytest.fixture
def make_client(fake, tmp_path, clock):
    """Clients that share one state folder; keywords change the service, the retry or the limits."""
    with ExitStack() as opened:

        def make(*, retry=QUICK, limits=None, state=tmp_path / "state", now=clock, **changes):
            service = fake.service(**{"contact": "tests@example.org"} | changes)
            return opened.enter_context(EnterpriseClient(service, state, clock=now, retry=retry, limits=limits))

        yield make


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def hour():
    return HOUR


@pytest.fixture
def content():
    return random.Random(7).randbytes(400_000)


@pytest.fixture
def batch(fake, content):
    return models.Batch.model_validate(fake.add("enwiki_namespace_0", content))
