"""What operations say of what they did and could not do: each number is in its place, and no file is blamed."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from resources.warehouse import Applied, HourLoad, SnapshotLoad, WarehouseFullError, named
from resources.warehouse.publisher import Published
from resources.warehouse.read.ledger import FaultyFile
from tests.builds import ask
from tests.unit.warehouse.conftest import START

LOST = [FaultyFile(f"{number}.parquet", "is gone", is_gone=True) for number in range(7)]
TOLD = (
    HourLoad(START, True, 2, 3, 4000, 5, 6, 7, 8, 0.5),
    HourLoad(START, False, 0, 3, 0, 0, 0, 7, 8, 0.5),
    SnapshotLoad("a", "b" * 32, True, False, START, 2, 3, 4, 5, ("c", "d", "e", "f", "g", "h"), 0.5),
    SnapshotLoad("a", "b" * 32, False, True, START, 2, 3, 4, 5, (), 0.5),
    Applied("entities", "entity", (START,), 2, 3, ("a", "b"), 4, 5000, 6, 0.5),
    Applied("entities", "entity", (), 0, 0, (), 0, 0, 6, 0.5),
    Published(Path(), True, 7, 1_500_000, 2, tuple(LOST[:1]), 0.5, 1.5),
    Published(Path(), False, 7, 1, 2, (), 1, 1),
    named(LOST),
)
SENTENCES = """\
Hour 2026-11-01T00:00Z: 2 files loaded (3 unchanged), 4,000 rows, 5 duplicates, 6 rejects in 0.50 s.
Hour 2026-11-01T00:00Z: nothing to do, 3 files already loaded with the same content.
Snapshot a bbbbbbbb: 2 files, 3 rows, 4 duplicates, 5 rejects, complete until 2026-11-01T00:00Z, in 0.50 s. \
A newer version remains the base of `articles`. Dropped: 6 older versions.
Snapshot a bbbbbbbb: nothing to do, 2 files already loaded with the same content.
Entities: advanced by 2 files of 1 hour and 3 files of lookups, a, b rebuilt from snapshots and changes, \
4 entities written, 5,000 removed, 6 entities now, 0.50 s.
Entities: nothing pending, 6 entities.
Published revision 7: 1.5 MB and 2 lake files in 1.50 s, including 0.50 s with the lock held. Missing or damaged: \
1 lake file.
The published file is up to date (revision 7). Nothing was written.
0.parquet is gone; 1.parquet is gone; 2.parquet is gone; 3.parquet is gone; 4.parquet is gone; 2 more files"""


def test_each_number_is_in_its_place():
    assert "\n".join(map(str, TOLD)) == SENTENCES


def test_what_has_no_memory_is_named_and_no_file_is_blamed(warehouse, lake, monkeypatch):
    refuse = Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left."))
    snapshot = lake.snapshot([[page := lake.change(1, "A", 1)]])
    load = partial(warehouse.load_hour, START, [lake.file(0, [page])])
    for place, purpose, step in (
        ("load.hours.enter", "load the hour 2026-11-01T00", load),
        ("load.snapshots.enter", "load the snapshot enwiki_namespace_0", partial(warehouse.load_snapshot, snapshot)),
        ("load.lookups.enter", "load the lookups", partial(warehouse.load_lookups, [lake.lookups(1, ("A", page))])),
        ("read.comparison.transaction", "store visibility changes", warehouse.keep_visibility_changes),
    ):
        monkeypatch.setattr(f"resources.warehouse.{place}", refuse)
        told = rf"memory ran out, so this run could not {purpose} \(Nothing is left"
        with pytest.raises(WarehouseFullError, match=told) as full:
            step()
        assert full.value.ends_run
        assert ask(warehouse, "SELECT count(*) FROM article_changes") == [(0,)]
