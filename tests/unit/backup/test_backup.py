"""Backups of plain files: what is linked, copied and compared, and what a kill or a full disk leaves."""

import errno
import os
import shutil
import sqlite3
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest

from pipelines.operations import backup as taking
from pipelines.operations import restore as restoring
from resources import backup as backups
from resources import files
from resources.backup import BackupDiskFullError, BackupError, UnreadableFileError, walk
from resources.data_folder import BackupUnderWayError, copying, removing
from resources.engine import line_reporter

QUIET, NOW = line_reporter(lambda _: None), datetime(2026, 11, 23, 8, 5, tzinfo=UTC)
FILES = {f"lake/t/date=2026-11-{d:02}/hour={h:02}/a.parquet": b"%d %d" % (d, h) for d in (1, 2) for h in (3, 20)}


@pytest.fixture
def data(tmp_path):
    for name, content in {**FILES, "lake/t-2/b.parquet": b"b"}.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(content)
    (tmp_path / "data/archive").mkdir()
    return tmp_path / "data"


def take(data, to, *, now=NOW, reporter=QUIET):
    return taking.take(data, to, reporter, now=now)


def restore(backup, data):
    return restoring.restore(backup.path, data, QUIET)


@pytest.fixture
def while_copying(monkeypatch):
    """`while_copying(do)`: `do` is called with each source before it is copied."""

    def patch(do):
        copied = taking._copied
        monkeypatch.setattr(taking, "_copied", lambda source, *rest: do(source) or copied(source, *rest))

    return patch


def test_the_newest_come_first_and_what_is_unfinished_not_at_all(data):
    for name in ("x.part", "x.tar.gz.part.json", "x.tar.gz.part.1024", ".x.tmp", "x.lock", "build.duckdb.wal"):
        (data / "lake" / name).write_bytes(b"half")
    (data / "lake/gone").symlink_to("since it was listed")
    names = [source.name for source in walk(data / "lake", "lake")]
    assert names == sorted([*FILES, "lake/t-2/b.parquet"], key=lambda name: name.split("/"), reverse=True)
    assert list(walk(data / "none", "none")) == []


def test_what_changed_is_copied_and_what_went_is_counted(data, tmp_path, monkeypatch, caplog):
    to, synced = tmp_path / "to", []
    monkeypatch.setattr(os, "sync", lambda: synced.append(sorted(path.name for path in to.iterdir())))
    own = files.sync
    monkeypatch.setattr(files, "sync", lambda path: synced.append(path) or own(path))
    first = take(data, to).backup
    # all is on disk before the backup has its name, and then the name
    assert (synced[-2], synced[-1]) == ([".lock", "unfinished"], to)
    gone, changed, also_gone = (data / name for name in list(FILES)[:3])
    before = changed.stat()
    changed.write_bytes(b"other")
    os.utime(changed, ns=(before.st_mtime_ns, before.st_mtime_ns))  # its size alone tells
    for path in (gone, also_gone, data / "lake/t-2/b.parquet"):
        path.unlink()
    (data / "lake/z").mkdir()
    (data / "lake/z/new").write_bytes(b"new")
    monkeypatch.setattr(backups, "_BLOCK_BYTES", 2)
    told, seen = [], []
    taken = take(data, to, reporter=lambda *words: told.append(words) or nullcontext(seen.append))
    assert (told, sum(seen)) == ([("copy", 8, "B")], 8)
    assert (taken.plan, taken.gone, taken.backup.size_bytes) == (taking.Plan(2, 8, 1, 4), {"lake": 3}, 8 + 4)
    assert (first.path / changed.relative_to(data)).read_bytes() == FILES[changed.relative_to(data).as_posix()]
    assert (taken.backup.path / changed.relative_to(data)).read_bytes() == b"other"
    # the clock has not gone on, and names are in the order of the backups
    assert [one.path.name for one in backups.completed(to)] == ["2026-11-23T080500Z", "2026-11-23T080501Z"]
    assert (take(data, to, now=NOW - timedelta(days=1)).backup, backups.find(first.path)) == (backups.find(to), first)
    # a backup with a damaged list is passed over, and the files of an older one are linked
    for one, linked in ((backups.find(to), 3), (taken.backup, 1)):
        os.truncate(one.path / "MD5SUMS", 9) if linked == 1 else (one.path / "MD5SUMS").unlink()
        assert (taking.plan(data, to).linked_count, f"{one.path}/MD5SUMS" in caplog.text) == (linked, True)
    taken = take(data, to)
    links = [path.stat().st_nlink for path in sorted(taken.backup.path.glob("lake/*/*/*/*"))]
    assert (taken.plan, links) == (taking.Plan(2, 8, 1, 4), [1, 4])


@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP])
def test_without_hard_links_every_file_is_copied(data, tmp_path, monkeypatch, number):
    take(data, tmp_path / "to")
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(number, "no links here")))
    backup = take(data, tmp_path / "to").backup
    for name, content in FILES.items():
        assert ((backup.path / name).read_bytes(), (backup.path / name).stat().st_nlink) == (content, 1)


def test_what_a_kill_left_is_compared_and_not_believed(data, tmp_path):
    to = tmp_path / "to"
    right, wrong = list(FILES)[:2]
    for name, content in ((right, FILES[right]), (wrong, b"?" * len(FILES[wrong]))):
        left = to / "unfinished" / name
        left.parent.mkdir(parents=True)
        left.write_bytes(content)
        seen = (data / name).stat()
        os.utime(left, ns=(seen.st_mtime_ns, seen.st_mtime_ns))
    for folder in (to / "unfinished", data):
        (folder / "lake/.half.tmp").write_bytes(b"half")
    (to / "unfinished/lake/went").write_bytes(b"since")
    kept, seen = (to / "unfinished" / right).stat().st_ino, []
    backup = take(data, to, reporter=lambda *_: nullcontext(seen.append)).backup
    assert sum(seen) == backup.size_bytes + len(FILES[wrong])  # which is read twice
    assert ((backup.path / right).stat().st_ino, (backup.path / wrong).read_bytes()) == (kept, FILES[wrong])
    found = {path.relative_to(backup.path).as_posix() for path in backup.path.rglob("*") if path.is_file()}
    assert found == {*FILES, "lake/t-2/b.parquet", "MD5SUMS", "backup.json"}
    assert (backup.file_count, backup.size_bytes) == (5, sum(map(len, FILES.values())) + 1)


def test_a_file_that_vanishes_is_skipped_and_a_growing_one_is_copied_as_of_one_moment(data, tmp_path, while_copying):
    gone, growing = (data / name for name in list(FILES)[:2])
    half = tmp_path / "to/unfinished" / gone.relative_to(data)  # of a backup that was killed
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")

    def change(source):
        if source.path == gone:
            gone.unlink()

    def grow(_):
        with growing.open("ab") as file:
            file.write(b"more")

    while_copying(change)
    taken = take(data, tmp_path / "to", reporter=lambda *_: nullcontext(grow))
    assert (taken.backup.file_count, (taken.backup.path / gone.relative_to(data)).exists()) == (4, False)
    for name, digest in taken.backup.sums():
        assert files.md5_of(taken.backup.path / name) == digest


def test_databases_are_copied_with_their_logs_and_a_damaged_one_as_it_is(data, tmp_path, monkeypatch):
    data = data.rename(data.with_name("50% of #1?"))
    history, to = data / "dagster/history", tmp_path / "to"
    for name in ("dagster/history/runs.db", "dagster/logs/x.out", "state/lookups.json", "state/tokens.json"):
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def copied():
        seen = []
        backup = take(data, to, reporter=lambda *_: nullcontext(seen.append)).backup
        found = {one.name for one in backup.path.rglob("*") if one.is_file()}
        assert found == {"a.parquet", "b.parquet", "runs.db", "lookups.json", "MD5SUMS", "backup.json"}
        return backup.path / "dagster/history/runs.db", sum(seen) / backup.size_bytes

    with closing(sqlite3.connect(history / "runs.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE runs (run_id)")
    (one, share), (same, none) = copied(), copied()
    assert (one.samefile(same), share, none) == (True, 1, 0), "the empty log of a reader is no change"
    with closing(sqlite3.connect(history / "runs.db", isolation_level=None)) as database:
        database.execute("INSERT INTO runs VALUES (zeroblob(9000))")
        (last, _), (same, _) = copied(), copied()
        database.executescript("PRAGMA locking_mode = EXCLUSIVE; DELETE FROM runs")
        moments = [0, 0, 60, 59.9, 0]
        monkeypatch.setattr(taking, "time", SimpleNamespace(monotonic=moments.pop))
        with pytest.raises(BackupError, match=r"kept .*runs\.db locked for 60 seconds\. Complete .* are unchanged"):
            take(data, to)
        assert moments == [0, 0]
    assert last.samefile(same), "the log is of the same time, and its rows make the copy longer"
    with closing(sqlite3.connect(last)) as duplicate:
        assert duplicate.execute("SELECT length(run_id) FROM runs").fetchall() == [(9000,)]
    with pytest.raises(UnreadableFileError, match="unable to open"):  # which is no damage, to be copied as it is
        taking._copy_database(SimpleNamespace(path=last), [], tmp_path)
    (history / "runs.db").write_bytes(b"no database" * 100)
    taken = taking.take(data, to, QUIET, keep=1)
    assert taken.problems[0].startswith("1 database in Dagster's history is damaged (dagster/history/runs.db). ")
    assert (taken.backup.path / "dagster/history/runs.db").read_bytes() == b"no database" * 100
    assert (taken.removed, len(backups.completed(to))) == ([], 5)


def test_what_cannot_be_read_is_named_and_all_else_is_copied(data, tmp_path, monkeypatch):
    first, own, refused = take(data, tmp_path / "to").backup, files.opened, {"refused"}
    names = ["dagster/history/runs.db", "archive/whole", "archive/torn", "archive/refused"]
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"some bytes")
    locked = sqlite3.OperationalError("attempt to write a readonly database")
    locked.sqlite_errorname = "SQLITE_READONLY_DIRECTORY"
    monkeypatch.setattr(sqlite3, "connect", Mock(side_effect=locked))
    half = own(data / "archive/torn")
    torn = MagicMock(wraps=half, read=Mock(side_effect=[b"some", OSError(errno.EIO, "Input/output error")]))
    torn.__exit__.side_effect = lambda *_: half.close()

    def opened(path, **more):
        if path.name in refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        return torn if path.name == "torn" else own(path, **more)

    monkeypatch.setattr(files, "opened", opened)
    taken = taking.take(data, tmp_path / "to", QUIET, keep=1)
    del names[1]
    told = f"3 files could not be read and were skipped ({', '.join(names)}). Make the user"
    assert (len(taken.problems), taken.problems[0].startswith(told), taken.removed) == (1, True, [])
    found = {path.relative_to(taken.backup.path).as_posix() for path in taken.backup.path.rglob("*") if path.is_file()}
    assert found == {*FILES, "lake/t-2/b.parquet", "archive/whole", "MD5SUMS", "backup.json"}
    refused.add("b.parquet")
    assert restore(first, tmp_path / "restored").damaged == ["lake/t-2/b.parquet"]


def test_a_full_disk_keeps_what_is_complete(data, tmp_path, monkeypatch):
    to = tmp_path / "to"
    first = take(data, to).backup
    (data / "lake/new").write_bytes(b"new")

    with monkeypatch.context() as patch:
        patch.setattr(backups, "copy_bytes", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        told = r"The disk that contains .* is full .* Complete backups are unchanged"
        with pytest.raises(BackupDiskFullError, match=told):
            take(data, to)
        assert backups.completed(to) == [first]
        told = r"The copied files are kept\. Free some disk space, then run the command again\."
        with pytest.raises(BackupDiskFullError, match=told):
            restore(first, tmp_path / "restored")
    assert (take(data, to).backup.file_count, restore(first, tmp_path / "restored").file_count) == (6, 5)
    with pytest.raises(PermissionError), backups.reporting_full(to, ""):
        raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize("there", [False, True])
def test_room_is_needed_for_what_is_not_there_yet(data, tmp_path, monkeypatch, there):
    needed = sum(map(len, FILES.values())) + 1 + taking._ROOM_BYTES
    if there:
        shutil.copytree(data / "lake", tmp_path / "to/unfinished/lake")
        needed = taking._ROOM_BYTES
    for free, fails in ((needed - 1, True), (needed, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(BackupDiskFullError, match="needs about") if fails else nullcontext():
            take(data, tmp_path / "to")


def test_a_restore_needs_room_for_what_is_not_there_yet(data, tmp_path, monkeypatch):
    backup, half, spoilt = take(data, tmp_path / "to").backup, tmp_path / "half", next(iter(FILES))
    shutil.copytree(backup.path / "lake/t", half / "lake/t")
    (half / spoilt).write_bytes(b"?" * len(FILES[spoilt]))
    shutil.copystat(backup.path / spoilt, half / spoilt)
    (half / "restoring.json").write_bytes(restoring._mark(backup))
    told = r"needs 1 B more space, but only 0 B is free in .*half\. Nothing more was copied"
    for free in (0, 1):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with nullcontext() if free else pytest.raises(BackupDiskFullError, match=told):
            restore(backup, half)
    assert [(half / name).read_bytes() for name in [*FILES, "lake/t-2/b.parquet"]] == [*FILES.values(), b"b"]


def test_a_restore_goes_on_with_the_same_backup_alone(data, tmp_path, monkeypatch):
    first = take(data, tmp_path / "to").backup
    (data / "lake/new").write_bytes(b"new")
    second = take(data, tmp_path / "to").backup
    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_restore_files", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            restore(first, tmp_path / "half")
    with pytest.raises(BackupError, match=r"is not empty\. Nothing was changed"):
        restore(second, tmp_path / "half")
    # all is on disk before the note goes
    seen = []
    monkeypatch.setattr(os, "sync", lambda: seen.append({path.name for path in (tmp_path / "half").iterdir()}))
    assert restore(first, tmp_path / "half").file_count == 5
    assert {"restoring.json", "lake"} <= seen[-1]
    assert not (tmp_path / "half/restoring.json").exists()
    with pytest.raises(BackupError, match="is not empty"):
        restore(first, tmp_path / "half")


def test_one_backup_at_a_time_and_of_one_service(data, tmp_path, while_copying):
    (tmp_path / "file").touch()
    with pytest.raises(BackupError, match=r"file is not a folder\. Nothing was copied\. Specify a folder\."):
        take(data, tmp_path / "file")
    with pytest.raises(BackupError, match=r"no complete backup in .*file\. Nothing was changed"):
        backups.find(tmp_path / "file")
    to, other = tmp_path / "to", tmp_path / "other"
    (other / "archive").mkdir(parents=True)

    def second(_):
        with pytest.raises(BackupError, match=r"Another backup to .* is in progress"):
            take(other, to)

    while_copying(second)
    take(data, to)
    (other / "state").mkdir(exist_ok=True)
    (other / "state/service.json").write_text('{"service": "https://other.example"}')
    told = r"of a mirror of unknown, but this mirror uses https://other\.example\. Nothing was changed"
    with pytest.raises(BackupError, match=told):
        take(other, to)


def test_older_backups_are_removed_and_a_damaged_one_is_not(data, tmp_path, monkeypatch):
    to = tmp_path / "to"
    taken = [take(data, to, now=NOW + timedelta(hours=number)).backup.path for number in range(4)]
    (taken[1] / "backup.json").write_text("damaged")
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            taking.remove_older(to, 2)
    assert [one.path for one in backups.completed(to)] == taken[2:]
    assert [taking.remove_older(to, keep) for keep in (3, 1)] == [[], [taken[2]]]
    assert sorted(path.name for path in to.iterdir()) == [".lock", taken[1].name, taken[3].name]


def test_files_are_not_removed_while_they_are_copied(tmp_path):
    with removing(tmp_path) as one, removing(tmp_path) as other:
        assert (one, other) == (True, True)
        with pytest.raises(BackupUnderWayError, match="or removing files from it"), copying(tmp_path, wait_seconds=0):
            pass
    with copying(tmp_path, wait_seconds=0):
        with removing(tmp_path) as may_remove:
            assert not may_remove
        with pytest.raises(BackupUnderWayError), copying(tmp_path, wait_seconds=0):
            pass
    with removing(tmp_path) as may_remove:
        assert may_remove
