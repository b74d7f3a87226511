"""Files that are there as a whole or not at all, whoever is killed when; paths may be strings."""

import errno
import inspect
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.notebook import connect
from pipelines.operations import backup, restore
from pipelines.report import page
from resources import datasets, enterprise, files, sandbox
from resources.data_folder import FolderError, ready
from resources.enterprise.listing import Listing
from resources.errors import retryable
from resources.lake import Archive, Layout, convert
from resources.warehouse import Warehouse
from tests.unit.lake.conftest import Lake as Archives
from tests.unit.warehouse.conftest import Clock, Lake

ROOT = Path(__file__).resolve().parents[2]


def names(folder):
    return [path.name for path in folder.iterdir()]


KILLED = """
import os, pathlib, signal, sys
from resources import files

path, when = pathlib.Path(sys.argv[1]), sys.argv[2]
setattr(os, when, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
files.write(path, b"new" * 1000, mode=0o600)
"""


@pytest.mark.parametrize("when", ["ftruncate", "fsync", "fchmod"])
def test_a_writer_that_is_killed_leaves_what_was_there_and_hinders_nobody(tmp_path, when):
    path = tmp_path / "folder" / "x.json"
    files.write(path, b"old")
    words = [sys.executable, "-c", KILLED, path, when]
    done = subprocess.run(words, cwd=ROOT, check=False, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, path.read_bytes()) == (-signal.SIGKILL, b"old")
    assert (path.parent / ".x.json.tmp").exists()
    files.write(path, b"newer", mode=0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777, names(path.parent)) == (b"newer", 0o600, ["x.json"])


def test_writers_that_meet_do_not_mix(tmp_path):
    path, contents = tmp_path / "x", [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            list(pool.map(lambda content: files.write(path, content), contents))
            assert path.read_bytes() in contents
    assert names(tmp_path) == ["x"]


def test_a_file_that_is_held_is_waited_for_within_bounds(tmp_path, monkeypatch):
    path = tmp_path / "x"
    with files.held(path, wait_seconds=1):
        told = r"has been writing .*x for more than 0 s.*try again"
        with pytest.raises(files.BusyError, match=told) as caught, files.held(path, wait_seconds=0):
            raise AssertionError("held by two")
        assert (retryable(caught.value), path.stat().st_mode & 0o111) == (True, 0)
        path.unlink()  # whoever comes now has a file of that name of its own
        with files.held(path, wait_seconds=0):
            pass
    own, renamed = files.take, tmp_path / "renamed"
    # a file that its holder renames just before it is locked has that name no more
    monkeypatch.setattr(files, "take", lambda one: own(one) if renamed.exists() else path.rename(renamed))
    with files.held(path, wait_seconds=60) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), path.stat())


def test_where_there_is_no_room_the_old_file_stays_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    files.write(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="large") as caught:
            files.write(path, bytes(5000))
        with pytest.raises(FolderError, match=r"is not writable \(File too large\).* Free up disk space"):
            ready(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    full = [files.is_full(OSError(code, "")) for code in (caught.value.errno, errno.ENOSPC, errno.EDQUOT, errno.EACCES)]
    assert (full, path.read_bytes(), names(tmp_path)) == ([True, True, True, False], b"old", ["x"])


def test_damaged_files_of_one_name_are_all_kept(tmp_path):
    for content in ("first", "second"):
        (tmp_path / "x").write_text(content)
        files.set_aside(tmp_path / "x")
    assert {path.read_text() for path in tmp_path.iterdir()} == {"first", "second"}


def test_a_finished_file_takes_the_name_of_another_and_no_descriptor_stays_open(tmp_path, monkeypatch):
    (tmp_path / "new").write_bytes(b"abc")
    (tmp_path / "x").write_bytes(b"old")
    before = set(Path("/dev/fd").iterdir())
    files.put(tmp_path / "new", tmp_path / "x")
    sizes: list[float] = []
    assert (names(tmp_path), files.md5_of(tmp_path / "x", sizes.append)) == (["x"], "900150983cd24fb0d6963f7d28e17f72")
    assert sizes == [3]
    monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
    for function, error in ((files.sync, ZeroDivisionError), (files.read, files.UnusableFileError)):
        with pytest.raises(error):
            function(tmp_path)
    assert set(Path("/dev/fd").iterdir()) <= before


@pytest.fixture
def done(monkeypatch):
    """What the system was asked for, in order: inodes that were made durable, and (inode, path) that got a name."""
    found, fsync, rename = [], os.fsync, os.replace

    def synced(descriptor):
        fsync(descriptor)
        found.append(os.fstat(descriptor).st_ino)

    def named(source, target, **options):
        rename(source, target, **options)
        found.append((Path(target).stat().st_ino, Path(target)))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    return found


def test_rows_and_rejects_of_a_conversion_are_durable_before_they_get_their_names(done, tmp_path):
    archives = Archives(Layout(tmp_path / "data"))
    made = convert(archives.archive(archives.lines(archives.record(1), b"no record")), archives.layout)
    # whoever sees the rows can rely on their rejects
    names = [(path.stat().st_ino, path) for path in (made.rejects_path, made.path)]
    assert [one for one in done if isinstance(one, tuple)] == names
    assert all(inode in done[: done.index((inode, path))] for inode, path in names)


def test_published_and_other_files_are_durable_before_they_get_their_names_and_the_names_afterwards(done, tmp_path):
    lake, warehouse = Lake(tmp_path), Warehouse(tmp_path, lock_timeout=5.0, clock=Clock())
    warehouse.load_hour(lake.hour(0), [lake.file(0, [lake.change(1, "A", 1)])], dataset=datasets.ARTICLE_CHANGES)
    files.write(tmp_path / "x", b"new")
    (tmp_path / "new").write_bytes(b"new")
    files.put(tmp_path / "new", tmp_path / "y")
    for path in (tmp_path / "x", tmp_path / "y", warehouse.publish().path):
        place = done.index((path.stat().st_ino, path))
        assert path.stat().st_ino in done[:place]
        assert path.parent.stat().st_ino in done[place : place + 2]


# --- paths as text ---------------------------------------------------------------------------------------------------

HOUR = datetime(2026, 11, 20, 5, tzinfo=UTC)


def test_each_door_takes_a_string(tmp_path):
    folder = str(tmp_path)
    assert Layout(folder) == Layout(tmp_path)
    assert Warehouse(folder).published_path == tmp_path / "warehouse.duckdb"
    assert Archive(f"{folder}/x", "x", "1", HOUR, "enwiki", 0).path == tmp_path / "x"
    assert sandbox.Settings(state=folder, corpus=folder) == sandbox.Settings(state=tmp_path, corpus=tmp_path)
    assert sandbox.find(folder) is None
    assert not enterprise.is_landed(f"{folder}/x", "1")
    for missing in (enterprise.read_listing, enterprise.read_set):
        with pytest.raises(FileNotFoundError):
            missing(f"{folder}/x")


def test_the_client_takes_a_string(tmp_path):
    service = enterprise.Service(*["http://127.0.0.1:9"] * 3, "somebody", "Passw0rd-1")
    with enterprise.EnterpriseClient(service, state=str(tmp_path / "state")) as client:
        assert not client.account.status().logged_in
        landed = client.lists.land(Listing(b"[]", (), "/v2/projects", HOUR, 1), str(tmp_path / "list.json"))
    assert enterprise.Sidecar.read(str(tmp_path / "list.json")) == landed
    with pytest.raises(TypeError, match=r"os\.PathLike"):
        enterprise.EnterpriseClient(service, state=None)  # type: ignore[arg-type]


def test_no_entry_point_is_declared_to_take_a_path_object_only():
    names = ("EnterpriseClient", "Hours", "Lists", "ServiceFiles", "Snapshots", "is_landed", "read_listing", "read_set")
    functions = [Warehouse, *(getattr(enterprise, name) for name in names)]
    functions += [backup.plan, backup.take, restore.restore, page.write, connect]
    kinds = [function for function in functions if isinstance(function, type)]
    members = [one for kind in kinds for one in vars(kind).items() if not one[0].startswith("_") and callable(one[1])]
    functions += [member for _, member in members]
    declared = [
        (function.__qualname__, name, str(parameter.annotation))
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    paths = [one for one in declared if "Path" in one[2]]
    assert len(paths) > 15
    assert [one for one in paths if "StrPath" not in one[2] and "str |" not in one[2]] == []
