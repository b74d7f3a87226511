"""Hostile archives end as rows, rejects, or one ArchiveError, in bounded time and memory."""

from __future__ import annotations

import pytest

from tests.unit.lake.hostile_worker import UnacceptableError, Worker, try_seed

#: One in so many is converted with the native decoder and without it, and both results are compared.
COMPARED_EVERY = 5


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


def test_hostile_archives(worker):
    for seed in range(16):
        try_seed(worker, seed, both=not seed % COMPARED_EVERY)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(100_000, 120_000, 1000))
def test_hostile_archives_at_length(worker, start):
    failed = []
    for seed in range(start, start + 1000):
        try:
            try_seed(worker, seed, both=not seed % COMPARED_EVERY)
        except UnacceptableError as error:
            failed.append(f"{seed}: {error} ({'; '.join(error.__notes__)})")
    assert not failed, "\n".join(failed)
