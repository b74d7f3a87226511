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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import duckdb
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

PHASES = ("download", "convert", "load", "apply", "publish")
#: Files that are there in the middle of each phase.
MARKS = {
    "download": "archive/**/*.part",
    "convert": "lake/**/*.unfinished",
    "load": "warehouse/*.wal",
    "apply": "warehouse/*.wal",
    "publish": "warehouse.duckdb.*.tmp",
}
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
    """What became of the kills: where they hit, how many came too late, which kinds of files they left unfinished."""

    hits: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    left: Counter[str] = field(default_factory=Counter)


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


def _await_file(data: Path, pattern: str) -> None:
    """Wait until a file of this kind is there, or not much longer than a phase takes."""
    end = time.monotonic() + 0.3
    while not any(data.glob(pattern)) and time.monotonic() < end:
        time.sleep(0.001)


def campaign(
    seed: int,
    data: Path,
    account: Any,
    runner: Any,
    hours: Sequence[datetime],
    reference: Undisturbed,
    unfinished: Callable[[Path], list[str]],
    told: Campaign,
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
        in_the_middle = chance.random() < 0.5
        if run.wait_for(f"> {phase}", repetition):
            if in_the_middle:
                _await_file(data, MARKS[phase])
                time.sleep(chance.uniform(0, 0.02))
            else:
                time.sleep(chance.uniform(0, 1.0) * reference.seconds.get(phase, 0.02))
            run.kill()
        if any(line.startswith("=") for line in run.lines):
            told.missed += 1
        else:
            told.hits[run.phase] += 1
            told.left.update({Path(name).suffix for name in unfinished(data)})
        done |= Counter({name: run.lines.count(f"< {name}") for name in PHASES})
        whole_hours_only(data)
    assert runner.start(environ, hours, history=history).finish() == []
    assert differences(data, reference.data) == dict.fromkeys(TABLES, 0)
    assert lake_of(data) == reference.lake
    assert archives_of(data) == archives_of(reference.data)
    assert unfinished(data) == []


def report(told: Campaign, capsys: Any) -> None:
    with capsys.disabled():
        counts = ", ".join(f"{phase} {told.hits[phase]}" for phase in (*PHASES, "between"))
        sys.stdout.write(f"\nkills: {sum(told.hits.values())} ({counts}); {told.missed} came after the end\n")
        sys.stdout.write(f"left unfinished: {', '.join(f'{kind} {n}' for kind, n in sorted(told.left.items()))}\n")


def _campaigns(
    seeds: Sequence[int], enough: int, least: int, tmp_path: Path, account: Any, undisturbed: Any, **tools: Any
) -> None:
    capsys, history, told = tools.pop("capsys"), tools.pop("history"), Campaign()
    # archives are small and loopback is fast: without this a download would be over before a kill could land in it
    account.sandbox.faults.add(path="*/download", kind="slow", bytes_per_second=1_500_000, count=None)
    reference = undisturbed(account)

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
        report(told, capsys)
    assert wanting() == [], "too few kills hit these"


@pytest.mark.timeout(600)  # a minute, or many on a machine that others use as well
def test_kills_leave_no_trace(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any, unfinished: Any, capsys: Any
) -> None:
    _campaigns(
        range(12),
        3,
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


def test_a_killed_run_is_ended_in_the_history_and_blocks_nobody(
    tmp_path: Path, account: Any, runner: Any, hours: Any, undisturbed: Any
) -> None:
    reference = undisturbed(account)
    for phase in ("load", "apply"):
        run = runner.start(account.environ(tmp_path), hours)
        assert run.wait_for(f"> {phase}")
        run.kill()
    assert runner.start(account.environ(tmp_path), hours).finish() == []
    assert differences(tmp_path, reference.data) == dict.fromkeys(TABLES, 0)
    home = tmp_path / "dagster"
    with dg.DagsterInstance.from_config(str(home)) as instance:
        found = [(run.job_name, run.status.value) for run in instance.get_runs()]
    assert found == [
        ("publish", "SUCCESS"),
        ("hours", "SUCCESS"),
        ("publish", "FAILURE"),
        ("hours", "SUCCESS"),
        ("hours", "FAILURE"),
    ]
    assert list((home / "processes").iterdir()) == []


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
