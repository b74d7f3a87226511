"""SIGKILL in every phase: the next run ends where an undisturbed one would, and nothing is left lying about.

Each campaign has a data folder of its own and is killed several times, at seeded moments of seeded phases, each time in
the run that goes on from what the one before left; then a run is let through.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.e2e.striking import PHASES, Kills

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

TABLES = ("articles", "article_changes", "rejects", "hours", "loads")
#: Columns that hold the moment of the work, and how often it was done: a run that was killed may differ in them.
OF_THE_WORK = "EXCLUDE (checked_at, load_count)", "EXCLUDE (loaded_at, applied_at)"


@dataclass
class Undisturbed:
    """What a run without kills makes, and how long each of its phases takes."""

    data: Path
    lake: dict[str, str]
    seconds: dict[str, float]


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


@pytest.fixture(scope="module")
def hours(hours: list[datetime]) -> list[datetime]:
    """Two hours are enough for one that is done and one that is not."""
    return hours[1:]


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
        kills = Kills()
        assert kills.let_through(runner.start(account.environ(data), hours, history=False)) == []
        made.append(Undisturbed(data, lake_of(data), kills.seconds))
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
    told: Kills,
    *,
    history: bool,
) -> None:
    """Kill some runs over one data folder, let the last one through, and compare."""
    chance = random.Random(seed)
    environ = account.environ(data)
    # phases in the order of the work, since what is done is not done again; some are skipped, some met twice
    plan = [phase for phase in PHASES for _ in range(chance.choice((0, 1, 1, 2)))]
    done: Counter[str] = Counter()
    for phase in plan:
        # an hour that went through a phase before passes it in no time: aim at one that did not
        times = len(hours) if phase in ("download", "convert", "load") else 1
        if times > 1 and done[phase] == times:
            continue
        repetition = chance.randint(1 + done[phase], times) if times > 1 else 1
        run = runner.start(environ, hours, history=history)
        told.strike(run, phase, repetition, chance, data, unfinished)
        done |= Counter({name: run.lines.count(f"< {name}") for name in PHASES})
    assert runner.start(environ, hours, history=history).finish() == []
    assert differences(data, reference.data) == dict.fromkeys(TABLES, 0)
    assert lake_of(data) == reference.lake
    assert archives_of(data) == archives_of(reference.data)
    assert unfinished(data) == []


def _campaigns(
    seeds: Sequence[int], enough: int, least: int, tmp_path: Path, account: Any, undisturbed: Any, **tools: Any
) -> None:
    capsys, history = tools.pop("capsys"), tools.pop("history")
    # archives are small and loopback is fast: without this a download would be over before a kill could land in it
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    reference = undisturbed(account)
    told = Kills(seconds=reference.seconds)

    def wanting() -> list[str]:
        return [phase for phase in PHASES if told.hits[phase] < least] + [
            f"what leaves {kind}" for kind in (".part", ".unfinished") if told.left[kind] < least
        ]

    try:
        for number, seed in enumerate(seeds):
            # where a kill lands depends on the machine: some seeds are spare, for what the first ones missed
            if number < enough or wanting():
                campaign(seed, tmp_path / str(seed), account, reference=reference, told=told, history=history, **tools)
    finally:
        with capsys.disabled():
            sys.stdout.write(f"\n{told}\n")
    assert wanting() == [], "too few kills hit these"


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_kills_leave_no_trace(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any, unfinished: Any, capsys: Any
) -> None:
    _campaigns(
        range(12),
        2,
        1,
        tmp_path,
        account,
        undisturbed,
        runner=runner,
        hours=hours,
        unfinished=unfinished,
        capsys=capsys,
        history=False,
    )


@pytest.mark.soak
def test_many_kills_leave_no_trace(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any, unfinished: Any, capsys: Any
) -> None:
    _campaigns(
        range(1000, 1100),
        80,
        10,
        tmp_path,
        account,
        undisturbed,
        runner=runner,
        hours=hours,
        unfinished=unfinished,
        capsys=capsys,
        history=True,
    )
