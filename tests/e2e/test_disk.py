"""Disks that nothing can be written to: a sentence that fits, before anything is made."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conftest import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMANDS = [("run", "--hours", "1"), ("publish",), ("auth", "login")]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with these options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_full_disk_is_said_before_anything_is_made(account: Any, call: Any, mounted: Any, words: Any) -> None:
    disk = mounted("size=4m")
    told = call(*words, environ=account.environ(disk / "data"))
    assert told.code == 1
    assert "is full: 4.2 MB are free, and any run needs 8. Nothing was changed. Make room, or set WME_DATA" in told.err
    assert told.err.splitlines()[-1].startswith(f"The disk of the folder {disk}/data")
    assert not [path for path in disk.rglob("*") if path.is_file()]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_disk_mounted_for_reading_is_called_so(account: Any, call: Any, mounted: Any, words: Any) -> None:
    disk = mounted("ro")
    told = call(*words, environ=account.environ(disk / "data"))
    assert told.code == 1
    assert told.err.splitlines()[-1] == (
        f"The folder {disk}/data{'/dagster' if words[0] == 'publish' else ''} cannot be written (Read-only file system). Nothing was "
        "changed. Mount its file system for writing, or set WME_DATA to another folder."
    )


def test_a_disk_that_fills_up_on_the_way_is_a_sentence_too(
    account: Any, wme: Any, hours: Any, mounted: Any, until: Any
) -> None:
    disk = mounted("size=16m")
    process = wme("run", "--no-reference", "--from", f"{hours[0]:%Y-%m-%dT%H}", environ=account.environ(disk / "data"))
    until(lambda: list(disk.glob("data/dagster/history/*.db")))
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in err, err
    # by whichever part met it: the history, the download, the lake or the warehouse
    assert re.search(r"The disk is full|No space left|Disk or memory ran out|[Mm]ake room|Free some space", err), err
