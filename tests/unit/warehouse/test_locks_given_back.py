"""Locks: given back whatever happened, and held against whoever would remove what is about to be named."""

from __future__ import annotations

import filelock
import pytest

from resources import datasets
from resources.datasets import ARTICLE_CHANGES
from resources.warehouse import LakeFileError, Warehouse, WarehouseBusyError


@pytest.fixture
def warehouse(closing_warehouse):
    return closing_warehouse


def test_a_failure_that_somebody_keeps_holds_no_lock(warehouse, lake):
    """A run keeps the errors of its hours until its end, and notes them in the warehouse."""
    file = lake.file(0, [lake.change(1, "A", 1)])
    content = file.path.read_bytes()
    file.path.unlink()
    with pytest.raises(LakeFileError) as kept:
        warehouse.load_hour(lake.hour(0), [file], dataset=datasets.ARTICLE_CHANGES)
    file.path.write_bytes(content)
    quick = Warehouse(warehouse.data, lock_timeout=0.1)
    assert quick.load_hour(lake.hour(0), [file], dataset=datasets.ARTICLE_CHANGES).row_count == 1
    assert kept.value.__traceback__ is not None


def test_nobody_looks_for_what_may_be_removed_while_somebody_publishes(warehouse, lake):
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])], dataset=datasets.ARTICLE_CHANGES)
    quick = Warehouse(warehouse.data, lock_timeout=0.1)
    with (
        filelock.FileLock(warehouse.data / "state" / "publish.lock"),
        pytest.raises(WarehouseBusyError, match="read the ledger"),
        quick.ledger(),
    ):
        pass
    with quick.ledger() as ledger:
        assert ledger.of_day(lake.hour(0).date(), ARTICLE_CHANGES).paths
