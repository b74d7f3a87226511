"""A file is there whole or not at all, whatever happens to its writer."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resources.lake import Converter, DiskFull, LakeError, convert, digest_of, find_conversion, sweep
from resources.lake.errors import landing_failed
from resources.lake.parquet.writer import Unfinished

ROOT = Path(__file__).resolve().parents[3]


def files(lake) -> list[str]:
    return sorted(path.name for path in lake.layout.lake.glob("**/*") if path.is_file())


def test_sweep_removes_what_was_left_and_spares_what_is_written(lake):
    made = lake.convert(lake.record(1))
    left = made.path.with_name("x.parquet.123-abc.unfinished")
    left.write_bytes(b"half")
    with Unfinished(made.path.with_name("y.parquet")) as busy:
        assert sweep(lake.layout) == (left,)
        assert busy.path.exists()
    assert files(lake) == [made.path.name]
    assert sweep(lake.layout) == sweep(lake.elsewhere("none").layout) == ()


@pytest.mark.parametrize("suffix", [".parquet", ".lines.gz"])
def test_rows_do_not_land_before_their_rejects_and_long_lines(lake, rows, monkeypatch, tmp_path, suffix):
    monkeypatch.setattr("resources.lake.rejects.RAW_BYTES_MAX", 2)
    archive = lake.archive(lake.lines(lake.record(1), b"bad"))
    target = archive.lake_file(lake.layout, "rejects", digest_of(archive)).with_suffix(suffix)
    (target / "in the way").mkdir(parents=True)
    with pytest.raises(LakeError, match="could not be written"):
        convert(archive, lake.layout)
    assert not [name for name in files(lake) if name.endswith(".parquet")]
    assert find_conversion(archive, lake.layout) is None
    with Converter(workers=1) as converter:
        converter.convert(archive, lake.layout, again=True).path.rename(tmp_path / "moved")
        (rows_file := archive.lake_file(lake.layout, "article_changes", digest_of(archive))).mkdir()
        made = converter.convert(archive, lake.layout, again=True)
    assert all(path.with_name(f"{path.name}.damaged").is_dir() for path in (target, rows_file))
    assert (made.converted, len(rows(made.path)), len(rows(made.rejects_path))) == (True, 1, 1)


KILLED = """
import pickle, signal, sys
from pathlib import Path
from resources.lake import Layout, convert, converter
converter.BLOCK_BYTES = 2048
calls = []
def hold(done, total):
    calls.append(done)
    if len(calls) == 20:
        print("half way", flush=True)
        signal.pause()
convert(pickle.loads(bytes.fromhex(sys.argv[1])), Layout(Path(sys.argv[2])), progress=hold)
"""


def test_killed_half_way_leaves_nothing_that_is_read(lake, small_blocks):
    archive = lake.archive(lake.lines(*(lake.record(n) for n in range(300)), b"bad"))
    words = [sys.executable, "-c", KILLED, pickle.dumps(archive).hex(), lake.layout.root]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process:
        assert (process.stdout.readline(), sweep(lake.layout)) == ("half way\n", ())
        (unfinished,) = files(lake)
        assert unfinished.endswith(".unfinished")
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in sweep(lake.layout)] == [unfinished]
    made = convert(archive, lake.layout)
    assert files(lake) == sorted([made.path.name, made.rejects_path.name])
    assert (made.row_count, made.reject_count) == (300, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_full_disk(lake, monkeypatch):
    def full(path, flags, mode=0o777):
        return opened("/dev/full", os.O_RDWR) if str(path).endswith(".unfinished") else opened(path, flags, mode)

    opened = os.open
    monkeypatch.setattr("resources.lake.parquet.writer.os.open", full)
    with pytest.raises(DiskFull, match=r"The disk is full: .* Free disk space, then run the command again\.") as caught:
        lake.convert(*(lake.record(n) for n in range(20)))
    assert caught.value.ends_run
    monkeypatch.undo()
    assert files(lake) == []


def test_folder_that_cannot_be_written(lake):
    lake.layout.root.mkdir(parents=True)
    lake.layout.lake.write_text("in the way")
    with pytest.raises(LakeError, match="could not be written to"):
        lake.convert(lake.record(1))


def test_errors_of_the_disk_are_told_apart():
    path = Path("lake/x.parquet")
    assert isinstance(landing_failed(OSError(28, "No space left on device"), path), DiskFull)
    assert isinstance(landing_failed(OSError("write failed: [errno 28] no space"), path), DiskFull)
    other = landing_failed(OSError(5, "Input/output error"), path)
    assert not isinstance(other, DiskFull)
    assert "Input/output error" in str(other)
    assert not other.retryable


def test_a_system_that_takes_few_bytes_at_once_gets_them_all(lake, monkeypatch):
    whole, write = lake.convert(*(lake.record(n) for n in range(20))), os.write
    with monkeypatch.context() as patch:
        patch.setattr("resources.lake.parquet.writer.os.write", lambda handle, data: write(handle, data[:1000]))
        other = lake.elsewhere("other").convert(*(lake.record(n) for n in range(20)))
    assert other.lake_bytes > 1000
    assert other.path.read_bytes() == whole.path.read_bytes()
