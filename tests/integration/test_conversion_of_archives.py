"""Archives of the service's byte form, made of real pages: nothing is lost, and memory stays bounded."""

import gzip
import json
import os
import pathlib
import subprocess
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.unit.assets.conftest import record
from tests.unit.lake.conftest import tar_bytes

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT.parent / "shared" / "tools" / "make_archive.py"

needs_maker = pytest.mark.skipif(not MAKER.exists(), reason="no tool for archives of real pages beside this checkout")

CONVERT = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path
from resources.lake import Archive, Layout, convert
hour = datetime(2026, 11, 19, 5, tzinfo=UTC)
archive = Archive(Path(sys.argv[1]), "enwiki_namespace_0", sys.argv[2], hour, "enwiki", 0)
made = convert(archive, Layout(Path(sys.argv[3])), memory_bytes=576 << 20, workers=int(sys.argv[4]))
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"path": str(made.path), "rows": made.row_count, "rejects": made.reject_count, "peak": peak * 1024,
                  "updates": made.update_count, "deletes": made.delete_count, "ndjson": made.ndjson_bytes,
                  "archive": made.archive_bytes}))
"""


def converted(archive: pathlib.Path, version: str, data: pathlib.Path, workers: int, **environ: str) -> dict:
    """What a process of its own tells of a conversion."""
    words = [sys.executable, "-c", CONVERT, archive, version, data, str(workers)]
    done = subprocess.run(words, check=True, capture_output=True, cwd=ROOT, env=os.environ | environ)
    return json.loads(done.stdout)


@needs_maker
@pytest.mark.parametrize(
    ("megabytes", "options"),
    [
        (10, ()),
        (3, ("--single-member", "--project", "enwiki", "--seed", "2")),
        pytest.param(800, (), marks=pytest.mark.soak),
    ],
)
def test_every_record_is_converted_in_bounded_memory(tmp_path, megabytes, options):
    """An archive is converted in a process of its own, every count compared, and its memory held to the bound."""
    archive = tmp_path / "archive.tar.gz"
    words = [sys.executable, MAKER, archive, "--megabytes", str(megabytes), "--level", "1", *options]
    told = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    found = converted(archive, told["md5"], tmp_path / "data", 2)
    assert (found["rows"], found["rejects"]) == (told["records"], 0)
    assert (found["ndjson"], found["archive"]) == (told["bytes"], told["archive_bytes"])
    rows = pq.read_table(found["path"], columns=["version_id", "event_id", "name", "change_type"])
    assert pc.sum(rows["version_id"]).as_py() == told["revision_sum"]
    distinct = rows.select(["event_id", "name"]).group_by(["event_id", "name"]).aggregate([])
    assert distinct.num_rows == told["updates"] + told["deletes"]
    assert found["updates"] + found["deletes"] == told["records"]
    assert pc.sum(pc.equal(rows["change_type"], "delete")).as_py() == found["deletes"] >= told["deletes"]
    assert found["peak"] < 512 << 20, found


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """An archive with six lines of twenty megabytes among short ones, and its bytes unpacked."""
    text = "".join(f'<p class="c{n}">Zażółć gęślą jaźń {n}.</p>\n' for n in range(400_000))[: 19 << 20]
    path = tmp_path_factory.mktemp("huge") / "archive.tar.gz"
    pages = {number: text if number % 3 == 1 else text[:number] for number in range(1, 19)}
    records = [record(number, article_body={"html": page}) for number, page in pages.items()]
    data = b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records)
    path.write_bytes(gzip.compress(tar_bytes([("enwiki_namespace_0_0.ndjson", data)]), 1))
    return path, len(data)


@pytest.mark.parametrize("native", ["1", "0"], ids=["native", "pure"])
def test_lines_of_twenty_megabytes_stay_within_the_memory_allowed(huge, tmp_path, native):
    """More workers than the machine may have cores."""
    path, size = huge
    found = converted(path, "0" * 32, tmp_path / "data", 3, WME_NATIVE=native)
    assert (found["rows"], found["rejects"], found["ndjson"]) == (18, 0, size)
    lengths_out = pc.utf8_length(pq.read_table(found["path"], columns=["html"])["html"]).to_pylist()
    assert min(sorted(lengths_out)[-6:]) > 15 << 20
    assert found["peak"] < 512 << 20, found
