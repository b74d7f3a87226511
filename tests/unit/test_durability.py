"""After a loss of power a file is there whole or not at all: its bytes are made durable before it gets its name."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resources import datasets
from resources.lake import Layout, convert
from resources.warehouse import Warehouse
from tests.unit.lake.conftest import Lake as Archives
from tests.unit.warehouse.conftest import Clock, Lake


@dataclass
class Order:
    """What the system was asked for, in order: files and folders made durable, and names given.

    Attributes:
        synced: Of each call, the inode that was made durable.
        named: Files that got a name, with the number of calls of `synced` before it and the inode.
    """

    synced: list[int] = field(default_factory=list)
    named: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def is_durable(self, path: Path) -> bool:
        """Whether the file's bytes were made durable before it got its name, and nothing else has the name since."""
        before, inode = self.named[path]
        return inode in self.synced[:before] and path.stat().st_ino == inode

    def name_is_durable(self, path: Path) -> bool:
        """Whether its folder was made durable after it got its name."""
        before, _ = self.named[path]
        return path.parent.stat().st_ino in self.synced[before:]


@pytest.fixture
def order(monkeypatch):
    found = Order()
    fsync, rename = os.fsync, os.replace

    def synced(descriptor):
        fsync(descriptor)
        found.synced.append(os.fstat(descriptor).st_ino)

    def named(source, target, **options):
        inode = Path(source).stat().st_ino
        rename(source, target, **options)
        found.named[Path(target)] = (len(found.synced), inode)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    return found


def test_rows_and_rejects_of_a_conversion(order, tmp_path):
    archives = Archives(Layout(tmp_path / "data"))
    made = convert(archives.archive(archives.lines(archives.record(1), b"no record")), archives.layout)
    assert set(order.named) == {made.path, made.rejects_path}
    assert order.is_durable(made.path)
    assert order.is_durable(made.rejects_path)
    # whoever sees the rows can rely on their rejects
    assert list(order.named) == [made.rejects_path, made.path]


def test_the_published_file(order, tmp_path):
    lake, warehouse = Lake(tmp_path), Warehouse(tmp_path, lock_timeout=5.0, clock=Clock())
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])], dataset=datasets.ARTICLE_CHANGES)
    path = warehouse.publish().path
    assert order.is_durable(path)
    assert order.name_is_durable(path)
