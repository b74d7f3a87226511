"""The benchmark of orchestration runs from end to end on two empty hours, and tells what each way costs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from benchmarks import orchestration
from benchmarks.__main__ import main

if TYPE_CHECKING:
    import pytest


def test_both_ways_are_measured_and_the_start_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WME_PASSWORD", "set by the benchmark")
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(orchestration, "COMMANDS", (("publish",),))
    command = ["orchestration", "--json", "--hours", "2", "--megabytes", "0", "--rounds", "1"]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    costs, ratios = found["costs"], found["ratios"]
    for name in ("1 empty", "2 empty"):
        # the loop is what Dagster calls, and nothing else
        assert costs[f"{name}, Dagster"]["cpu_seconds"] > costs[f"{name}, a loop"]["cpu_seconds"] > 0
        assert ratios[f"{name}: Dagster to a loop"] > 1
    nothing = [costs[f"a run of {count} that do nothing"]["cpu_seconds"] for count in (1, orchestration.STEPS)]
    assert 0 < nothing[0] < nothing[1]
    for name in (orchestration.CODE_LOCATION, "wme publish"):
        assert ratios[f"{name} to {orchestration.DAGSTER}"] > 0
        assert costs[name]["peak_mib"] > 0
