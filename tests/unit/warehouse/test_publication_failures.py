"""Publications that are killed or fail; readers keep their file, and see whole hours only."""

import errno
import filecmp
import os
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import duckdb
import pytest

from resources import datasets, files
from resources.warehouse import WarehouseFullError, publisher
from resources.warehouse.database.recovery import copy_file
from resources.warehouse.publisher import Publisher
from tests.unit.warehouse.killing_steps import PUBLISHING


class Mirror:
    """Hours of a few pages, loaded and published."""

    def __init__(self, warehouse, lake):
        self.warehouse, self.lake, self.hours = warehouse, lake, 0

    def load(self):
        number = self.hours
        pages = [(n, n * 7 + number) for n in range(40)]
        rows = [self.lake.change(page, f"T{page}", 60 * number + n, html=f"{number:02}") for n, page in pages]
        file = self.lake.file(number, rows)
        self.warehouse.load_hour(file.batch_hour, [file], dataset=datasets.ARTICLE_CHANGES)
        self.warehouse.apply_changes()
        self.hours += 1

    def publish(self):
        self.load()
        return self.warehouse.publish()

    def assert_published(self, hours):
        """What is published is the state of so many hours."""
        answer = self.warehouse.sql(
            "SELECT (SELECT count(*) FROM loads), (SELECT count(DISTINCT batch_hour) FROM article_changes), "
            "(SELECT count(*) FROM article_bodies), (SELECT max(html) FROM article_bodies)"
        )
        assert answer.rows == [(hours, hours, 40 * hours, f"{hours - 1:02}")]

    def assert_whole(self):
        """What is published is the newest state."""
        self.assert_published(self.hours)
        assert not list(self.warehouse.data.glob("*.tmp*"))


@pytest.fixture
def mirror(warehouse, lake):
    made = Mirror(warehouse, lake)
    made.publish()
    return made


def test_published_file_is_a_copy_of_the_build_file(closing_warehouse, lake, monkeypatch, tmp_path):
    """A reader keeps its own, also where the file system does not support `copy_file_range`."""
    mirror = Mirror(closing_warehouse, lake)
    mirror.publish()

    for is_supported in (True, False):
        if not is_supported:
            monkeypatch.setattr(os, "copy_file_range", Mock(side_effect=OSError(errno.EXDEV, "not here")))
        with mirror.warehouse.connect_published() as reader, mirror.warehouse.published_path.open("rb") as held:
            content = held.read()
            query = "SELECT count(*), bit_xor(hash(articles)) FROM articles"
            before = reader.execute(query).fetchall()
            # closes a descriptor of the same file, and with it DuckDB's lock
            mirror.warehouse.sql("SELECT 1")
            mirror.publish()
            assert reader.execute(query).fetchall() == before
            # nothing is written into a file that somebody has open
            held.seek(0)
            assert held.read() == content
        assert filecmp.cmp(mirror.warehouse.build_path, mirror.warehouse.published_path, shallow=False)
        mirror.assert_whole()
    for number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF):
        monkeypatch.setattr(os, "copy_file_range", Mock(side_effect=OSError(number, "not here")))
        copy_file(mirror.warehouse.build_path, tmp_path / "copy")
        assert filecmp.cmp(mirror.warehouse.build_path, tmp_path / "copy", shallow=False)


def test_killed_at_each_step_of_a_publication(mirror, killing):
    with killing(mirror.warehouse.data, "2026-12-01") as kill_at:
        for step in PUBLISHING:
            mirror.load()
            kill_at(step)
            # what is published is the state before or the new one, whole, and another publication works
            is_new = step == "in place"
            mirror.assert_published(mirror.hours if is_new else mirror.hours - 1)
            assert mirror.warehouse.publish().changed is not is_new
            mirror.assert_whole()


def test_failure_while_the_file_is_copied_or_synchronized_changes_nothing_and_leaves_nothing(mirror, monkeypatch):
    mirror.load()
    published, before = mirror.warehouse.published_path, mirror.warehouse.published_path.stat()

    full = "Disk space or memory ran out, so this run could not publish.*Free disk space"
    for name, error, told, message in (
        ("copy_file_range", OSError(errno.ENOSPC, "No space left on device"), WarehouseFullError, full),
        ("copy_file_range", OSError(errno.EIO, "Input/output error"), OSError, "Input/output"),
        ("fsync", OSError("Nothing is kept"), OSError, "Nothing is kept"),
    ):
        refuse = Mock(side_effect=error)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(told, match=message):
                mirror.warehouse.publish()
        after = published.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
        # half a copy would keep a full disk full, and no hour could be fetched
        assert not list(mirror.warehouse.data.glob("*.tmp*"))
    steps, sync, replace = [], files.sync, Path.replace
    monkeypatch.setattr(files, "sync", lambda path: steps.append(path) or sync(path))
    monkeypatch.setattr(Path, "replace", lambda path, to: steps.append((path, to)) or replace(path, to))
    # as if each of these steps took a second
    monkeypatch.setattr(publisher, "time", SimpleNamespace(perf_counter=lambda: len(steps), time_ns=time.time_ns))
    done = mirror.warehouse.publish()
    assert (done.changed, done.seconds - done.locked_seconds) == (True, 3)
    # on disk before it is seen, and its name before the publication ends
    copy = steps[-2][0]
    assert steps[-3:] == [copy, (copy, published), published.parent]
    mirror.assert_whole()


def test_a_failure_that_no_lake_file_explains_is_not_tried_again(mirror, monkeypatch):
    mirror.load()
    refuse = Mock(side_effect=duckdb.OutOfMemoryException("Nothing is left."))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_write", refuse)
        with pytest.raises(WarehouseFullError, match="Nothing is left"):
            mirror.warehouse.publish()
    assert refuse.call_count == 1
    assert mirror.warehouse.publish().changed
    mirror.assert_whole()
