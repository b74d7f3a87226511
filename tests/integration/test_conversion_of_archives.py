"""Archives of the service's byte form, made of real pages: nothing is lost, and memory stays bounded."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT.parent / "shared" / "tools" / "make_archive.py"

pytestmark = pytest.mark.skipif(
    not MAKER.exists(), reason="the tool that makes archives of real pages is not beside this checkout"
)

CONVERT = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path
from resources.lake import Archive, Layout, convert
hour = datetime(2026, 11, 19, 5, tzinfo=UTC)
archive = Archive(Path(sys.argv[1]), "enwiki_namespace_0", sys.argv[2], hour, "enwiki", 0)
made = convert(archive, Layout(Path(sys.argv[3])), memory_bytes=512 << 20)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"path": str(made.path), "rows": made.row_count, "rejects": made.reject_count, "peak": peak * 1024,
                  "updates": made.update_count, "deletes": made.delete_count, "ndjson": made.ndjson_bytes,
                  "archive": made.archive_bytes}))
"""


def convert_and_compare(folder: pathlib.Path, megabytes: float, *options: str) -> int:
    """Make an archive, convert it in a process of its own, compare every count; the peak memory of that process."""
    archive = folder / "archive.tar.gz"
    made = subprocess.run(
        [sys.executable, MAKER, archive, "--megabytes", str(megabytes), "--level", "1", *options],
        check=True,
        capture_output=True,
    )
    told = json.loads(made.stdout)
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, archive, told["md5"], folder / "data"],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    found = json.loads(done.stdout)
    assert found["rows"] == told["records"]
    assert found["rejects"] == 0
    assert (found["ndjson"], found["archive"]) == (told["bytes"], told["archive_bytes"])
    rows = pq.read_table(found["path"], columns=["version_id", "event_id", "name", "change_type"])
    assert pc.sum(rows["version_id"]).as_py() == told["revision_sum"]
    assert rows.select(["event_id", "name"]).group_by(["event_id", "name"]).aggregate([]).num_rows == (
        told["updates"] + told["deletes"]
    )
    assert found["updates"] + found["deletes"] == told["records"]
    assert pc.sum(pc.equal(rows["change_type"], "delete")).as_py() == found["deletes"] >= told["deletes"]
    assert found["peak"] < 512 << 20
    return found["peak"]


def test_thirty_megabytes(tmp_path):
    convert_and_compare(tmp_path, 30)


def test_one_member(tmp_path):
    convert_and_compare(tmp_path, 3, "--single-member", "--project", "enwiki", "--seed", "2")


@pytest.mark.soak
def test_two_hundred_megabytes_and_memory_stays_flat(tmp_path):
    peaks = []
    for megabytes in (200, 800):
        folder = tmp_path / str(megabytes)
        folder.mkdir()
        peaks.append(convert_and_compare(folder, megabytes))
    # how far the threads are apart at the peak differs from run to run; memory that grew with the archive would be four times as much
    assert peaks[1] < 1.5 * peaks[0]
