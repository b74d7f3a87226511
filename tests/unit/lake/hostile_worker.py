"""Converts hostile archives one after another in one process, and judges how each ended.

`python -m tests.unit.lake.hostile_worker SEED ...` prints for each seed what the archive is and how it ended, with the
native decoder and without it. Without a seed it is the worker: a request as JSON on each line of its input, an answer
on its output.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from resources.lake import Archive, ArchiveError, Converter, Layout, converter
from tests.unit.lake.hostile import Hostile, build

#: Processor time of a conversion, and how long to wait for it: other work on the machine slows it down.
SECONDS, PATIENCE = 60, 600
MEMORY_BYTES = 512 << 20
MESSAGE_MAX = 2000
#: Blocks of two kilobytes: the seams of large archives in small ones.
SMALL_BLOCK = 2048
ROOT = Path(__file__).resolve().parents[3]


class UnacceptableError(AssertionError):
    """An archive ended as none may."""


# --- The process that converts --------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """Peak memory of this process since `forget_peak`."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def serve() -> None:
    """Answer requests until the input ends."""
    usual = converter.BLOCK_BYTES
    converters = {}
    for size in (usual, SMALL_BLOCK):
        converter.BLOCK_BYTES = size
        converters[size] = Converter(memory_bytes=MEMORY_BYTES)
    converter.BLOCK_BYTES = usual
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ["WME_NATIVE"] = "1" if asked["native"] else "0"
        hour = datetime(2026, 11, 19, 5, tzinfo=UTC)
        archive = Archive(Path(asked["path"]), "enwiki_namespace_0", "0" * 32, hour, "enwiki", 0)
        converter.BLOCK_BYTES = SMALL_BLOCK if asked["small"] else usual
        forget_peak()
        started, answer = time.process_time(), {}
        try:
            made = converters[converter.BLOCK_BYTES].convert(archive, Layout(Path(asked["root"])))
        except ArchiveError as error:
            answer["error"] = str(error)
        else:
            answer |= {"rows": made.row_count, "rejects": made.reject_count, "path": str(made.path)}
            answer["rejects_path"] = made.rejects_path and str(made.rejects_path)
            answer["drift"] = [asdict(drift) for drift in made.drift]
        answer |= {"seconds": time.process_time() - started, "peak": peak_bytes()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


# --- The process that judges ----------------------------------------------------------------------------------------


class Worker:
    """A process that converts, replaced when it dies or hangs. `folder` is for what it reads and makes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="hostile-")
        self.folder = Path(self._folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> str:
        if self._process is None:
            return ""
        self._process.kill()
        _, told = self._process.communicate()
        self._process = None
        return told.strip()[-1500:]

    def ask(self, request: dict) -> dict:
        """The answer to a request. Raises UnacceptableError where there is none in time."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.unit.lake.hostile_worker"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        process = self._process
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        line = process.stdout.readline() if ready else ""
        if not line:
            raise UnacceptableError(f"{'it died' if ready else 'it takes for ever'}: {self._end()}")
        return json.loads(line)


def memory_bound(hostile: Hostile) -> int:
    """The memory that a conversion may take: a line that is longer than a block takes more."""
    more = converter.LONG_LINE_FACTOR * hostile.longest if hostile.longest > converter.BLOCK_BYTES else 0
    return MEMORY_BYTES + more


def judge(hostile: Hostile, answer: dict) -> None:
    """Raise UnacceptableError unless the archive ended as it must."""

    def require(fact: object, what: str) -> None:
        if not fact:
            raise UnacceptableError(what)

    require(answer["seconds"] < SECONDS, f"{answer['seconds']:.0f} s of processor time")
    bound = memory_bound(hostile)
    require(answer["peak"] <= bound, f"{answer['peak'] >> 20} MB of memory, where {bound >> 20} are allowed")
    if (error := answer.get("error")) is not None:
        require(hostile.fails is not False, f"it is refused, though nothing is wrong: {error[:500]}")
        require(len(error) <= MESSAGE_MAX, f"a message of {len(error):,} characters")
        require(error.isprintable(), f"a message that cannot be printed: {error[:500]!r}")
        return
    require(hostile.fails is not True, "it was converted, though it is damaged")
    counts = answer["rows"], answer["rejects"]
    require(
        sum(counts) == hostile.lines, f"{hostile.lines:,} lines became {counts[0]:,} rows and {counts[1]:,} rejects"
    )
    found = Counter(pq.read_table(answer["path"], columns=["article_id"])["article_id"].to_pylist())
    missing, unexpected = hostile.good - found, found - hostile.good
    require(not missing, f"good records are not rows: {list(missing)[:5]}")
    require(not unexpected, f"bad lines are rows: {list(unexpected)[:5]}")
    if answer["rejects"]:
        rejected = pq.read_table(answer["rejects_path"], columns=["reason"])["reason"].to_pylist()
        require(len(rejected) == answer["rejects"], "the file of rejects holds other lines than were counted")
        require(all(0 < len(reason) <= MESSAGE_MAX for reason in rejected), "a reason is empty or endless")


def same(one: dict, other: dict) -> None:
    """Raise UnacceptableError unless both ways to read lines ended alike."""
    facts = [{key: way.get(key) for key in ("error", "rows", "rejects", "drift")} for way in (one, other)]
    if facts[0] != facts[1]:
        raise UnacceptableError(f"the native decoder and the other way differ: {facts}"[:2000])
    for key in ("path", "rejects_path"):
        if one.get(key) and not pq.read_table(one[key]).equals(pq.read_table(other[key])):
            raise UnacceptableError(f"the native decoder and the other way give other rows ({key})")


def convert_one(worker: Worker, hostile: Hostile, *, native: bool, small: bool) -> dict:
    """Convert an archive and judge how it ended. Nothing of an archive that is refused may be there afterwards."""
    root = worker.folder / ("native" if native else "pure")
    path = worker.folder / "archive.tar.gz"
    path.write_bytes(hostile.data)
    answer = worker.ask({"path": str(path), "root": str(root), "native": native, "small": small})
    judge(hostile, answer)
    if "error" in answer and files_below(root):
        raise UnacceptableError("files of an archive that was refused")
    return answer


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def try_seed(worker: Worker, seed: int, *, both: bool) -> list[dict]:
    """Make the archive of a seed, convert it and judge how it ended: one way by turns, or both."""
    hostile = build(seed)
    small = seed % 3 == 0 and hostile.size < 20 * SMALL_BLOCK
    try:
        ways = (True, False) if both else (seed % 2 == 0,)
        answers = [convert_one(worker, hostile, native=native, small=small) for native in ways]
        if both:
            same(*answers)
    except UnacceptableError as error:
        error.add_note(
            f"{', '.join(hostile.done) or 'nothing but lines'}. Again: python -m tests.unit.lake.hostile_worker {seed}"
        )
        raise
    finally:
        for path in files_below(worker.folder):
            path.unlink()
    return answers


def main(seeds: list[str]) -> None:
    if not seeds:
        serve()
        return
    with Worker() as worker:
        for seed in map(int, seeds):
            hostile = build(seed)
            sys.stdout.write(
                f"{seed}: {len(hostile.data):,} bytes, {hostile.lines:,} lines, fails: {hostile.fails}; "
                f"{hostile.done}\n"
            )
            for answer in try_seed(worker, seed, both=True):
                told = {key: value for key, value in answer.items() if "path" not in key and key != "drift"}
                sys.stdout.write(f"    {told}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
