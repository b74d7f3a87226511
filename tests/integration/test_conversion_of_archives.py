"""Archives of the service's byte form, made of real pages: nothing is lost, and memory stays bounded."""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT.parent / "shared" / "tools" / "make_archive.py"

needs_maker = pytest.mark.skipif(
    not MAKER.exists(), reason="the tool that makes archives of real pages is not beside this checkout"
)

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


def convert_and_compare(folder: pathlib.Path, megabytes: float, *options: str) -> None:
    """Make an archive, convert it in a process of its own, compare every count, and hold its memory to the bound."""
    archive = folder / "archive.tar.gz"
    made = subprocess.run(
        [sys.executable, MAKER, archive, "--megabytes", str(megabytes), "--level", "1", *options],
        check=True,
        capture_output=True,
    )
    told = json.loads(made.stdout)
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, archive, told["md5"], folder / "data", "2"],
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
    assert found["peak"] < 512 << 20, found


@needs_maker
def test_ten_megabytes(tmp_path):
    convert_and_compare(tmp_path, 10)


@needs_maker
def test_one_member(tmp_path):
    convert_and_compare(tmp_path, 3, "--single-member", "--project", "enwiki", "--seed", "2")


@needs_maker
@pytest.mark.soak
def test_eight_hundred_megabytes(tmp_path):
    convert_and_compare(tmp_path, 800)


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """An archive with six lines of twenty megabytes among short ones, and its bytes unpacked."""
    text = "".join(f'<p class=\\"c{n}\\">Zażółć gęślą jaźń {n}.</p>\\n' for n in range(400_000))[: 20 << 20].rstrip(
        "\\"
    )

    def line(number: int, html: str) -> bytes:
        return (
            f'{{"name":"Page {number}","identifier":{number},"date_modified":"2026-11-19T05:10:11Z",'
            f'"version":{{"identifier":{number}}},"namespace":{{"identifier":0}},'
            f'"is_part_of":{{"identifier":"enwiki"}},"article_body":{{"html":"{html}"}}}}\n'
        ).encode()

    path = tmp_path_factory.mktemp("huge") / "archive.tar.gz"
    lengths = [len(text) if number % 3 == 0 else number for number in range(18)]
    data = b"".join(line(number, text[:length].rstrip("\\")) for number, length in enumerate(lengths, 1))
    member = tarfile.TarInfo("enwiki_namespace_0_0.ndjson")
    member.size = len(data)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        tar.addfile(member, io.BytesIO(data))
    return path, len(data)


@pytest.mark.parametrize("native", ["1", "0"], ids=["native", "pure"])
def test_lines_of_twenty_megabytes_stay_within_the_memory_allowed(huge, tmp_path, native):
    """More workers than the machine may have cores."""
    path, size = huge
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, path, "0" * 32, tmp_path / "data", "3"],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"WME_NATIVE": native},
    )
    found = json.loads(done.stdout)
    assert (found["rows"], found["rejects"], found["ndjson"]) == (18, 0, size)
    lengths_out = pc.utf8_length(pq.read_table(found["path"], columns=["html"])["html"]).to_pylist()
    assert min(sorted(lengths_out)[-6:]) > 15 << 20
    assert found["peak"] < 512 << 20, found
