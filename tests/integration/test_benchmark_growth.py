"""The benchmark of growth runs from end to end on a short history, and tells all that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_is_measured_on_a_short_history(tmp_path):
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "growth",
        "--json",
        "--days",
        "1",
        "--projects",
        "3",
        "--rounds",
        "1",
    ]
    found = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=500
    )
    assert "of disk in" in found.stderr
    [age] = json.loads(found.stdout)["ages"]
    assert (age["days"], age["projects"]) == (1, 3)
    questions = {"body by title", "body by page", "body by revision", "bodies of 100 pages", "bodies of an hour"}
    assert questions | {f"{one}, as loaded" for one in questions} <= age["costs"].keys()
    assert {"compaction", "hour", "publication", "wme status", "code location"} <= age["costs"].keys()
    assert all(cost["seconds"] > 0 for cost in age["costs"].values())
    # of 72 files
    assert age["notes"]["lake files"] < 40
    assert age["notes"]["changes"] > age["notes"]["pages"] > 100
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_said_before_anything_is_made(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "growth", "--days", "1000000", "--folder", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert found.returncode == 1
    assert "Nothing was measured" in found.stderr
    assert list(tmp_path.iterdir()) == []
