"""The benchmarks run, and every contender does the same work."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from benchmarks import workload

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> pathlib.Path:
    """A tiny archive, built as on a machine that has nothing but this project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "_MAKER", pathlib.Path("not-there"))
        return workload.build(tmp_path_factory.mktemp("benchmark"), 1)


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "benchmarks", "convert", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_every_contender_gives_the_same_rows(archive, tmp_path):
    facts = json.loads(run("--archive", archive, "--rounds", 1, "--json", "--out", tmp_path))
    assert facts["rows"] > 50
    assert 0.2 < facts["megabytes"] < 5
    assert facts["bound_mb_s"] > 0
    ours = facts["ours"]
    assert set(ours) == {"mb_s", "cpu_s", "rss_mb", "bytes_out", "rows", "version_sum"}
    assert (ours["rows"], ours["version_sum"] > 0) == (facts["rows"], True)
    assert len(facts["peers"]) == 7
    for name, peer in facts["peers"].items():
        assert "error" not in peer, (name, peer)
        assert (peer["rows"], peer["version_sum"]) == (ours["rows"], ours["version_sum"]), name
        assert peer["starts_from"] == ("ndjson" if "plain" in name else "tar.gz")
    (kept,) = tmp_path.glob("lake/article_changes/**/*.parquet")
    assert pq.read_metadata(kept).num_rows == ours["rows"]


def test_table(archive):
    text = run("--archive", archive, "--rounds", 1, "--only", "polars from plain", "--cores", 1)
    assert "1 cores, zstd 3" in text
    assert "ours" in text
    assert "polars from plain ndjson" in text
    assert "duckdb" not in text
    assert "Bound of gunzip + parse + write" in text
