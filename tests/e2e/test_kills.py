"""SIGKILL in every phase: the next run ends where an undisturbed one would, and nothing is left lying about.

Each campaign has a data folder of its own and is killed several times, at seeded moments of seeded phases, each time in the
run that goes on from what the one before left; then a run is let through. A kill lands where it lands: it is counted for
the phase in which the process really was, as the process itself told before it died.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

PHASES = ("download", "convert", "load", "apply", "publish")
TABLES = ("articles", "article_changes", "rejects", "hours", "loads")
#: Columns that hold the moment of the work, and how often it was done: a run that was killed may differ in them.
OF_THE_WORK = "EXCLUDE (checked_at, load_count)", "EXCLUDE (loaded_at, applied_at)"


@dataclass
class Undisturbed:
    """What a run without kills makes, and how long each of its phases takes."""

    data: Path
    lake: dict[str, str]
    seconds: dict[str, float]


@dataclass
class Campaign:
    """What became of the kills."""

    hits: Counter[str] = field(default_factory=Counter)
    missed: int = 0


def lake_of(data: Path) -> dict[str, str]:
    return {
        path.relative_to(data).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((data / "lake").rglob("*"))
        if path.is_file()
    }


def archives_of(data: Path) -> dict[str, str]:
    return {
        path.relative_to(data).as_posix(): hashlib.md5(path.read_bytes()).hexdigest()
        for path in sorted((data / "archive").rglob("*.tar.gz"))
    }


def differences(data: Path, other: Path) -> dict[str, int]:
    """Rows of the published tables that stand in one of two folders only."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{data / 'warehouse.duckdb'}' AS one (READ_ONLY)")
        connection.execute(f"ATTACH '{other / 'warehouse.duckdb'}' AS two (READ_ONLY)")
        found = {}
        for table in TABLES:
            columns = {"hours": f"* {OF_THE_WORK[0]}", "loads": f"* {OF_THE_WORK[1]}"}.get(table, "*")
            one, two = (f"SELECT {columns} FROM {name}.{table}" for name in ("one", "two"))
            found[table] = connection.execute(
                f"SELECT count(*) FROM (({one} EXCEPT ALL {two}) UNION ALL ({two} EXCEPT ALL {one}))"
            ).fetchall()[0][0]
        return found


def whole_hours_only(data: Path) -> None:
    """What analysts see at this moment: for each hour all files of the ledger, with all their rows, or none."""
    published = data / "warehouse.duckdb"
    if not published.exists():
        return
    with duckdb.connect(str(published), read_only=True) as connection:
        wrong = connection.execute(
            "SELECT batch_hour, project_id, l.row_count, c.n FROM "
            "(SELECT batch_hour, project_id, count(*) n, count(DISTINCT (event_id, name, change_type, version_id)) d "
            "FROM article_changes GROUP BY ALL) c FULL JOIN loads l USING (batch_hour, project_id) "
            "WHERE c.n IS NULL OR l.row_count IS NULL OR c.n > l.row_count"
        ).fetchall()
        assert wrong == []


@pytest.fixture(scope="module")
def undisturbed(
    service: Any, runner: Any, hours: list[datetime], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Undisturbed]:
    """An undisturbed run of an account, made once."""
    made: list[Undisturbed] = []

    def make(account: Any) -> Undisturbed:
        if made:
            return made[0]
        data = tmp_path_factory.mktemp("undisturbed")
        began: dict[str, float] = {}
        seconds: dict[str, float] = {}
        run = runner.start(account.environ(data), hours)
        while not run.ended:
            run._read(60)
            last = run.lines[-1] if run.lines else ""
            if last.startswith("> "):
                began[last[2:]] = time.monotonic()
            elif last.startswith("< ") and last[2:] in began:
                seconds[last[2:]] = time.monotonic() - began.pop(last[2:])
        assert run.finish() == []
        made.append(Undisturbed(data, lake_of(data), seconds))
        return made[0]

    return make


def campaign(
    seed: int,
    data: Path,
    account: Any,
    runner: Any,
    hours: Sequence[datetime],
    reference: Undisturbed,
    unfinished: Callable[[Path], list[str]],
    told: Campaign,
) -> None:
    """Kill some runs over one data folder, let the last one through, and compare."""
    chance = random.Random(seed)
    environ = account.environ(data)
    # phases in the order of the work, since what is done is not done again; some are skipped, some met twice
    plan = [phase for phase in PHASES for _ in range(chance.choice((0, 1, 1, 2)))]
    for phase in plan:
        run = runner.start(environ, hours)
        repetition = chance.randint(1, len(hours)) if phase in ("download", "convert", "load") else 1
        if run.wait_for(f"> {phase}", repetition):
            time.sleep(chance.uniform(0, 1.1) * reference.seconds.get(phase, 0.02))
            run.kill()
        if any(line.startswith("=") for line in run.lines):
            told.missed += 1
        else:
            told.hits[run.phase] += 1
        whole_hours_only(data)
    assert runner.start(environ, hours).finish() == []
    assert differences(data, reference.data) == dict.fromkeys(TABLES, 0)
    assert lake_of(data) == reference.lake
    assert archives_of(data) == archives_of(reference.data)
    assert unfinished(data) == []


def report(told: Campaign, capsys: Any) -> None:
    with capsys.disabled():
        counts = ", ".join(f"{phase} {told.hits[phase]}" for phase in (*PHASES, "between"))
        sys.stdout.write(f"\nkills: {sum(told.hits.values())} ({counts}); {told.missed} came after the end\n")


def _campaigns(seeds: Sequence[int], least: int, tmp_path: Path, account: Any, undisturbed: Any, **tools: Any) -> None:
    capsys, told = tools.pop("capsys"), Campaign()
    # archives are small and loopback is fast: without this a download would be over before a kill could land in it
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    reference = undisturbed(account)
    try:
        for seed in seeds:
            campaign(seed, tmp_path / str(seed), account, reference=reference, told=told, **tools)
    finally:
        report(told, capsys)
    for phase in PHASES:
        assert told.hits[phase] >= least, f"no kill hit {phase}"


def test_kills_leave_no_trace(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any, unfinished: Any, capsys: Any
) -> None:
    _campaigns(
        range(5), 1, tmp_path, account, undisturbed, runner=runner, hours=hours, unfinished=unfinished, capsys=capsys
    )


@pytest.mark.soak
def test_many_kills_leave_no_trace(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any, unfinished: Any, capsys: Any
) -> None:
    _campaigns(
        range(1000, 1080),
        10,
        tmp_path,
        account,
        undisturbed,
        runner=runner,
        hours=hours,
        unfinished=unfinished,
        capsys=capsys,
    )
