"""Hostile archives end as rows, rejects, or one ArchiveError, in bounded time and memory."""

import contextlib
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resources.lake import Archive, ArchiveError, Converter, Layout, converter
from resources.lake.decode.native import trim
from tests.unit.lake.conftest import HOUR
from tests.unit.lake.hostile import build

#: One in so many is converted with the native decoder and without it, and both results are compared.
COMPARED_EVERY = 5
#: Processor time of a conversion, and memory of a process that only converts.
SECONDS, MEMORY_BYTES = 60, 512 << 20
MESSAGE_MAX = 2000
#: Blocks of two kilobytes: the seams of large archives in small ones.
SMALL_BLOCK = 2048
USUAL_BLOCK = converter.BLOCK_BYTES


def memory(name):
    """Bytes of this process: VmRSS now, or VmHWM at the peak."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) << 10


@pytest.fixture(scope="module")
def converters():
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        for size in (USUAL_BLOCK, SMALL_BLOCK):
            patch.setattr(converter, "BLOCK_BYTES", size)
            made[size] = Converter(memory_bytes=MEMORY_BYTES)
    return made


@pytest.fixture(scope="module")
def memory_before():
    """Memory of this process beside its conversions; what one of them leaves counts for those that follow."""
    trim()
    return memory("VmRSS")


@pytest.fixture
def try_seed(converters, memory_before, tmp_path, monkeypatch):
    """Make the archive of a seed, convert it and judge how it ended: one way by turns, or both."""

    def convert_one(archive, hostile, size, *, native):
        layout = Layout(tmp_path / ("native" if native else "pure"))
        monkeypatch.setenv("WME_NATIVE", "1" if native else "0")
        monkeypatch.setattr(converter, "BLOCK_BYTES", size)
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        started = time.process_time()
        try:
            made = converters[size].convert(archive, layout)
        except ArchiveError as error:
            made = error
        seconds, grown = time.process_time() - started, memory("VmHWM") - memory_before
        assert seconds < SECONDS
        more = converter.LONG_LINE_FACTOR * hostile.longest if hostile.longest > converter.BLOCK_BYTES else 0
        assert converter._BASE_BYTES + grown <= MEMORY_BYTES + more
        return judged(hostile, made, layout)

    def try_one(seed):
        hostile = build(seed)
        path = tmp_path / f"{seed}.tar.gz"  # where the process dies of it, it is left
        path.write_bytes(hostile.data)
        archive = Archive(path, "enwiki_namespace_0", "0" * 32, HOUR, "enwiki", 0)
        size = SMALL_BLOCK if seed % 3 == 0 and hostile.size < 20 * SMALL_BLOCK else USUAL_BLOCK
        ways = (seed % 2 == 0,) if seed % COMPARED_EVERY else (True, False)
        try:
            found = [convert_one(archive, hostile, size, native=native) for native in ways]
            assert found[0] == found[-1], "the native decoder and the other way differ"
        except AssertionError as error:
            error.add_note(f"Seed {seed}: {', '.join(hostile.done) or 'nothing but lines'}")
            raise
        for one in [one for one in tmp_path.rglob("*") if one.is_file()]:
            one.unlink()

    return try_one


def judged(hostile, made, layout):
    """What came of it, after it was seen that it ended as it must."""
    if isinstance(made, ArchiveError):
        assert hostile.fails is not False, f"it is refused, though nothing is wrong: {made}"
        assert len(str(made)) <= MESSAGE_MAX
        assert str(made).isprintable()
        assert not [path for path in layout.root.rglob("*") if path.is_file()]
        return str(made)
    assert hostile.fails is not True, "it was converted, though it is damaged"
    assert made.row_count + made.reject_count == hostile.lines
    tables = [pq.read_table(path) for path in (made.path, made.rejects_path) if path]
    assert Counter(tables[0]["article_id"].to_pylist()) == hostile.good
    if made.reject_count:
        reasons = tables[1]["reason"].to_pylist()
        assert len(reasons) == made.reject_count
        assert all(0 < len(reason) <= MESSAGE_MAX for reason in reasons)
    return made.row_count, made.reject_count, [asdict(drift) for drift in made.drift], tables


@pytest.mark.usefixtures("library")
def test_hostile_archives(try_seed):
    for seed in range(16):
        try_seed(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("start", range(100_000, 120_000, 1000))
def test_hostile_archives_at_length(try_seed, start):
    failed = []
    for seed in range(start, start + 1000):
        try:
            try_seed(seed)
        except AssertionError as error:
            failed.append(f"{error} ({'; '.join(error.__notes__)})"[:2000])
    assert not failed, "\n".join(failed)
