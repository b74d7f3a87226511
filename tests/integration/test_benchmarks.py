"""The benchmarks run, every contender does the same work, and ours stays ahead of them.

What is compared here are ratios of processor time within one run, which other work on the machine hardly moves. The bounds
leave room for noise, and none for a converter that becomes twice as slow.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from benchmarks import workload

ROOT = pathlib.Path(__file__).resolve().parents[2]


def built(folder: pathlib.Path, megabytes: float) -> pathlib.Path:
    """An archive, built as on a machine that has nothing but this project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "_MAKER", pathlib.Path("not-there"))
        return workload.build(folder, megabytes)


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> pathlib.Path:
    return built(tmp_path_factory.mktemp("small"), 1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict:
    """Two rounds over some 24 MB: ours, DuckDB, and the cases that need no more room."""
    large = built(tmp_path_factory.mktemp("large"), 15)
    return json.loads(
        run(
            "--archive",
            large,
            "--rounds",
            2,
            "--only",
            "read_json from .gz",
            "--cases",
            "small,bad,drift,short,members,structured,entities",
            "--json",
        )
    )


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "benchmarks", "convert", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_every_contender_gives_the_same_rows(archive, tmp_path):
    facts = json.loads(run("--archive", archive, "--rounds", 1, "--json", "--out", tmp_path))
    assert facts["rows"] > 50
    assert 0.2 < facts["megabytes"] < 5
    assert facts["bound_mb_s"] > 0
    ours = facts["ours"]
    assert set(ours) == {"mb_s", "cpu_s", "rss_mb", "bytes_out", "rows", "rejects", "version_sum"}
    assert (ours["rows"], ours["rejects"], ours["version_sum"] > 0) == (facts["rows"], 0, True)
    assert facts["cases"] == {}
    assert len(facts["peers"]) == 7
    for name, peer in facts["peers"].items():
        assert "error" not in peer, (name, peer)
        assert (peer["rows"], peer["version_sum"]) == (ours["rows"], ours["version_sum"]), name
        assert peer["starts_from"] == ("ndjson" if "plain" in name else "tar.gz")
    (kept,) = tmp_path.glob("lake/article_changes/**/*.parquet")
    assert pq.read_metadata(kept).num_rows == ours["rows"]


def test_tables(archive):
    text = run(
        "--archive", archive, "--rounds", 1, "--only", "polars from plain", "--cores", 1, "--cases", "small,huge,giant"
    )
    assert "1 cores, zstd 3" in text
    assert "ours" in text
    assert "polars from plain ndjson" in text
    assert "duckdb read_json" not in text
    assert "Bound of gunzip + parse + write" in text
    assert "20 MB lines too" in text
    assert "50 MB lines too" in text
    assert "benchmarks convert --archive" in text


def test_ours_takes_less_processor_time_than_duckdb_and_keeps_to_its_memory(measured):
    ours, (duckdb,) = measured["ours"], measured["peers"].values()
    again = measured["cases"]["clean"]  # the same lines once more: the quieter of the two counts
    assert min(ours["cpu_s"], again["cpu_s"]) < 1.8 * duckdb["cpu_s"], (ours, again, duckdb)
    assert measured["bound_cpu_s"] > 0
    assert ours["rss_mb"] < 512


def test_many_small_archives_cost_little_more_than_one_large(measured):
    case = measured["cases"]["small"]
    assert case["archives"] >= 10
    assert case["to_clean"]["cpu"] < 2, case


def test_short_records_and_many_members_cost_little_more_than_others(measured):
    short, members = measured["cases"]["short"], measured["cases"]["members"]
    assert short["rows"] > 50_000
    assert short["to_clean"]["cpu"] < 2.5, short
    assert short["rss_mb"] < 512
    assert members["rows"] >= 1000
    assert members["to_clean"]["cpu"] < 2, members


@pytest.mark.parametrize("name", ["bad", "drift"])
def test_lines_that_need_a_closer_look_cost_little_more_than_others(measured, name):
    case = measured["cases"][name]
    assert case["to_clean"]["cpu"] < 2.5, case
    assert bool(case["rejects"]) == (name == "bad")


@pytest.mark.parametrize("name", ["structured", "entities"])
def test_other_records_are_converted_at_half_the_speed_of_articles_or_faster(measured, name):
    case = measured["cases"][name]
    assert case["to_clean"]["cpu"] < 2, case
    assert case["rss_mb"] < 512


def test_workers_and_archives_at_a_time_are_measured_within_their_memory(archive):
    found = json.loads(run("--archive", archive, "--rounds", 1, "--workers", "1,2", "--json"))["scaling"]
    assert [(one["case"], one["workers"], one["at_once"]) for one in found] == [
        *(("one archive", workers, 1) for workers in (1, 2)),
        *(("archives of 2 MB", workers, 1) for workers in (1, 2)),
    ]
    assert all(0 < one["rss_mb"] < one["allowed_mb"] == 96 + 160 * one["workers"] for one in found)
    assert len({one["rows"] for one in found}) == 1


def test_threads_and_dask_convert_the_same():
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "engine",
        "--archives",
        "3",
        "--megabytes",
        "1",
        "--rounds",
        "1",
        "--json",
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    assert (found["archives"], found["workers"]) == (3, 2)
    assert min(found["threads_s"], found["dask_s"], found["connect_s"], found["task_ms"]) > 0


def test_what_is_not_known_is_refused_by_name(archive):
    command = [sys.executable, "-m", "benchmarks", "convert", "--archive", str(archive), "--cases", "small,tiny"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert (
        "tiny: known are all, none, small, bad, drift, short, members, huge, giant, long, structured, entities"
        in done.stderr
    )


@pytest.mark.soak
def test_memory_does_not_grow_with_the_archive(tmp_path):
    """3 GB against 300 MB, and lines of 20 MB: all within the bound. Longer lines take more, twelve times their length at most.

    Several rounds, of which the highest peak counts: how often all threads are at theirs together is chance, and a long
    archive has ten times the chances of a short one.
    """
    large = built(tmp_path, 200)
    facts = json.loads(
        run("--archive", large, "--rounds", 4, "--only", "none of them", "--cases", "long,huge", "--json")
    )
    cases = facts["cases"]
    assert 250 < cases["clean"]["megabytes"] < 350
    assert cases["long"]["megabytes"] > 2_500
    assert cases["long"]["to_clean"]["rss"] < 1.1, cases
    assert max(case["rss_mb"] for case in cases.values()) < 512, cases
