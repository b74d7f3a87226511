"""The file that was published before: taken only if nobody else can see it change."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.warehouse.publish import standby
from resources.warehouse.publish.standby import Standby

READS = "a reader still has the file of the publication before open"


@pytest.fixture
def two(tmp_path, monkeypatch):
    """A file and the one published before it, long enough ago; `two.take()` gives the reason or takes it."""
    monkeypatch.setattr(standby, "SETTLED_SECONDS", 0.0)
    (tmp_path / "published").write_text("first")
    made = Standby(tmp_path / "standby", tmp_path / "published")
    made.keep()
    put(tmp_path, "second")
    return made


def put(folder, text):
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / "published")


def taken(two):
    """The reason why it is not taken, after which it is gone; None: it has the new name, writable."""
    name = two.path.with_name("taken")
    why = two.take(name)
    assert not two.path.exists()
    assert name.exists() == (why is None)
    if why is None:
        assert name.read_text() == "first"
        assert name.stat().st_mode & 0o200
    assert two.published_path.read_text() == "second"
    return why


def test_nobody_reads_it(two):
    two.path.chmod(0o444)
    assert taken(two) is None
    assert two.take(two.path.with_name("again")) == "no file is left of an earlier publication"


def test_another_process_reads_it(two):
    program = f"file = open({str(two.path)!r}); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        assert taken(two) == READS
        process.communicate("\n")


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_this_process_has_it_open(two, flags):
    descriptor = os.open(two.path, flags)
    try:
        # closing another descriptor takes this process's locks on the file away, and leaves it open
        fcntl.lockf(descriptor, (fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        two.path.read_text()
        assert taken(two) == READS
    finally:
        os.close(descriptor)


def test_it_has_another_name(two):
    two.path.with_name("kept").hardlink_to(two.path)
    assert taken(two) == "the file of the publication before has another name as well"


def test_killed_before_the_rename_it_is_the_published_file(two):
    two.path.unlink()
    two.keep()
    assert two.path.samefile(two.published_path)
    assert taken(two) == "the file of the publication before has another name as well"


def test_it_is_no_file(two):
    two.path.unlink()
    two.path.symlink_to(two.published_path)
    assert taken(two) is not None


@pytest.mark.parametrize("seconds", [3600.0, 0.5])
def test_it_was_published_until_just_now(two, monkeypatch, seconds):
    monkeypatch.setattr(standby, "SETTLED_SECONDS", seconds)
    # also after the clock was put back
    now = two.path.stat().st_ctime - (7200 if seconds < 1 else 0)
    monkeypatch.setattr(standby.time, "time", lambda: now)
    assert "was in use until less than" in taken(two)


def test_nothing_says_who_reads_it(two, monkeypatch):
    ask = fcntl.fcntl

    def refuse(descriptor, command, *more):
        if command == fcntl.F_SETLEASE:
            raise OSError(errno.EINVAL, "Invalid argument")
        return ask(descriptor, command, *more)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert taken(two) == (
        "the file system does not say whether a reader still has the file of the publication before open (Invalid argument)"
    )


def test_its_readers_may_be_on_other_machines(two, monkeypatch, tmp_path):
    shown = standby._MOUNTS.read_text()
    folder = str(two.path.parent).replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(standby, "_MOUNTS", mounts)
    own = "36 35 98:0 / {} rw,noatime master:1 - {} source rw\n"
    # under another mount, which is under that of everything
    mounts.write_text(shown + own.format(folder, "ext4") + own.format(folder + "/within", "nfs4"))
    assert standby._file_system(two.path) == "ext4"
    mounts.write_text(shown + own.format(folder, "ext4") + own.format(folder, "fuse.shared") + own.format("/", "ext4"))
    assert (
        taken(two)
        == "a file system of the kind fuse.shared does not show all readers of the file of the publication before"
    )


def test_mount_with_a_blank_in_its_name(two, monkeypatch, tmp_path):
    folder = tmp_path / "with blank"
    folder.mkdir()
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(standby, "_MOUNTS", mounts)
    shown = str(folder).replace(" ", "\\040")
    mounts.write_text(f"1 1 0:1 / / rw - ext4 a rw\n2 1 0:2 / {shown} rw shared:7 - virtiofs b rw\n")
    assert standby._file_system(folder / "standby") == "virtiofs"
    mounts.unlink()
    assert standby._file_system(folder / "standby") == "unknown"


def test_no_system_with_leases(two, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert taken(two) == "this system does not say whether a reader still has the file of the publication before open"


def test_it_cannot_be_opened(two, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        why = two.take(two.path.with_name("taken"))
    assert why == "the file of the publication before cannot be opened (Permission denied)"


def test_nothing_is_kept_where_there_is_nothing_or_no_links(two, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", refuse)
        two.keep()
        assert not two.path.exists()
    two.published_path.unlink()
    two.keep()
    assert not two.path.exists()
