"""The benchmark of the warehouse runs from end to end on few pages, and tells all that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_all_is_measured_on_few_pages(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "warehouse", "--json", "--pages", "2000", "--changes", "200"]
    found = subprocess.run(
        [*command, "--no-days", "--folder", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    )
    told = json.loads(found.stdout)
    assert [size["pages"] for size in told["sizes"]] == [2000]
    for size in told["sizes"]:
        assert set(size["costs"]) == {
            "snapshots",
            "articles from snapshots",
            "hour",
            "hour, plain: window",
            "live publication",
            "live publication, with the start of its process",
            "hour, plain: replace",
            "publish",
            "publish, everything copied",
            "look-up by name",
            "top 100 of an hour",
            "articles_at, one project",
            "full rebuild",
        }
        assert all(cost["seconds"] > 0 for cost in size["costs"].values())
        assert set(size["plain_to_ours"]) == {"window", "replace"}
        assert size["notes"]["published_gb"] > 0
        assert 0 < size["notes"]["delta_copied_share"] < size["notes"]["whole_copied_share"]
        assert size["notes"]["delta_locked_seconds"] >= 0
    assert list(tmp_path.iterdir()) == []
