"""SIGKILL for a run of the main job, at a drawn moment of a drawn phase, and what must hold whenever one has landed.

A kill lands where it lands: it is counted for the phase in which the process really was, as the process itself told
before it died.

Belongs here: where and when to strike, and counting the hits. Does not belong here: what to run, what to expect at the
end.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

PHASES = ("download", "convert", "load", "apply", "publish")
SNAPSHOT_PHASES = ("download snapshot", "convert snapshot", "load snapshot")
#: Files that are there in the middle of each phase.
MARKS = {
    "download": "archive/batches/**/*.part",
    "convert": "lake/article_changes/**/*.unfinished",
    "load": "warehouse/*.wal",
    "apply": "warehouse/*.wal",
    "publish": "warehouse.duckdb.*.tmp",
    "download snapshot": "archive/snapshots/**/*.part",
    "convert snapshot": "lake/snapshot_articles/**/*.unfinished",
    "load snapshot": "warehouse/*.wal",
}


@dataclass
class Kills:
    """What became of the kills: where they hit, how many came too late, which kinds of files they left unfinished."""

    hits: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    left: Counter[str] = field(default_factory=Counter)
    #: How long each phase took when nobody disturbed it.
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """How many kills hit which phase."""
        hits = ", ".join(f"{phase} {self.hits[phase]}" for phase in (*PHASES, *SNAPSHOT_PHASES, "between"))
        left = ", ".join(f"{kind} {n}" for kind, n in sorted(self.left.items()))
        return f"kills: {self.hits.total()} ({hits}); {self.missed} came after the end; left unfinished: {left}"

    def let_through(self, run: Any) -> list[str]:
        """Read a run to its end, noting how long each of its phases takes; returns the sentences of what failed."""
        began: dict[str, float] = {}
        while not run.ended:
            seen = len(run.lines)
            run._read(120)
            for line in run.lines[seen:]:
                if line.startswith("> "):
                    began[line[2:]] = time.monotonic()
                elif line.startswith("< ") and line[2:] in began:
                    self.seconds[line[2:]] = time.monotonic() - began.pop(line[2:])
        return run.finish()

    def strike(
        self,
        run: Any,
        phase: str,
        repetition: int,
        chance: random.Random,
        data: Path,
        unfinished: Callable[[Path], list[str]],
    ) -> bool:
        """Kill a run when it has entered a phase for the `repetition`th time, a drawn while later.

        Returns:
            Whether it was killed; False where it had come to its end before.
        """
        in_the_middle = chance.random() < 0.5
        wait = chance.random()
        if run.wait_for(f"> {phase}", repetition):
            if in_the_middle:
                _let_go_on(run, phase, 1.0, lambda: _lies(data, MARKS[phase]))
                _let_go_on(run, phase, 0.02 * wait)
            else:
                _let_go_on(run, phase, wait * self.seconds.get(phase, 0.02))
            run.kill()
        whole_loads_only(data)
        if any(line.startswith("=") for line in run.lines):
            self.missed += 1
            return False
        self.hits[run.phase] += 1
        self.left.update({Path(name).suffix for name in unfinished(data)})
        return True


def _lies(data: Path, pattern: str) -> bool:
    """Whether there is such a file at this moment; folders may come and go meanwhile."""
    with suppress(FileNotFoundError):
        return any(data.glob(pattern))
    return False


def _let_go_on(run: Any, phase: str, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    """Let a run go on for so long, or until a condition holds, but no longer than it is in the phase."""
    end = time.monotonic() + seconds
    while run.phase == phase and not run.ended and not until() and time.monotonic() < end:
        if select.select([run.pipe], [], [], 0.001)[0]:
            run._read(0)


def whole_loads_only(data: Path) -> None:
    """What analysts see at this moment.

    Of each hour and snapshot all files of the ledger, with all their rows, or none.
    """
    published = data / "warehouse.duckdb"
    if not published.exists():
        return
    with duckdb.connect(str(published), read_only=True) as connection:
        assert_whole_loads(connection)


def assert_whole_loads(connection: duckdb.DuckDBPyConnection) -> None:
    """See that the tables hold what the ledger beside them says."""
    for table in ("article_changes", "entity_changes"):
        wrong = connection.execute(
            "SELECT batch_hour, project_id, l.row_count, c.n FROM "
            f"(SELECT batch_hour, project_id, namespace_id, count(*) n FROM {table} GROUP BY ALL) c "
            f"FULL JOIN (FROM loads WHERE table_name = '{table}') l USING (batch_hour, project_id, namespace_id) "
            "WHERE coalesce(c.n, 0) <> l.row_count - l.duplicate_count OR l.row_count IS NULL"
        ).fetchall()
        assert wrong == []
    for table in ("snapshot_articles", "snapshot_entities"):
        held = "SELECT coalesce(sum(row_count - duplicate_count), 0)::BIGINT FROM snapshots WHERE table_name = ?"
        assert (
            connection.execute(f"SELECT count(*) FROM {table}").fetchall()
            == connection.execute(held, [table]).fetchall()
        )
