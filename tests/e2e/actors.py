"""What the processes of a campaign do: bring in, spoil, compact, publish, read. Each reports in lines how far it is.

Belongs here: the product's own work, with the moment and the small bounds of a test. Does not belong here: starting,
killing, and what must hold at the end.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from assets.steps import compaction
from pipelines.cli import maintenance
from resources.warehouse import Warehouse
from tests.e2e import forkserver
from tests.e2e.striking import assert_whole_loads
from tests.spoiling import spoil as spoil_hour

if TYPE_CHECKING:
    import click

#: So little that the rows of a month are sorted in pieces on the disk; much less makes many pieces, which take a minute
#: to merge.
MEMORY_BYTES = 1 << 25
#: Where each phase of a compaction is entered.
COMPACTION_PHASES = (
    (Warehouse, "prepare_compaction", "prepare"),
    (compaction, "compact", "rewrite"),
    (Warehouse, "commit_compaction", "take in"),
    (Warehouse, "move_window", "move window"),
)
#: What an analyst finds in one publication, all of which belongs to its revision.
WHOLE = """
SELECT
  (SELECT value::BIGINT FROM about WHERE name = 'revision') AS revision,
  (SELECT count(*) FROM articles) AS article_count,
  (SELECT bit_xor(hash(articles)) FROM articles) AS articles,
  (SELECT bit_xor(hash(article_changes)) FROM article_changes) AS changes,
  (SELECT bit_xor(hash(hours)) FROM hours) AS hours,
  (SELECT bit_xor(hash(loads)) FROM loads) AS loads
"""
#: Texts of some pages, others for each revision; `bodies` has one of each page.
BODIES = """
WITH asked AS (SELECT project_id, article_id, version_id, source_at FROM articles WHERE article_id % 5 = ? % 5)
SELECT (SELECT count(*) FROM asked), count(*), bit_xor(hash(body))
FROM article_bodies AS body SEMI JOIN asked USING (project_id, article_id, version_id, source_at)
"""


def bring_in(pipe: int, request: dict[str, Any]) -> None:
    """Run the main job as `wme run` does: hours, snapshots, or nothing but what is pending, and publish."""
    _publications(pipe)
    forkserver.run(request, pipe)


def publish(pipe: int, environ: dict[str, str], now: str) -> None:
    """Run `wme publish`."""
    _publications(pipe)
    forkserver.runs.processes.opened = forkserver.without_history
    forkserver.stand_still(datetime.fromisoformat(now))
    forkserver.watch(functools.partial(_tell, pipe))
    _command(pipe, environ, maintenance.publish)


def compact(pipe: int, environ: dict[str, str], now: str) -> None:
    """Run `wme compact` at a moment, to which the window of the changes is moved as well.

    Each day is settled when it ends.
    """
    moment = datetime.fromisoformat(now)
    tell = functools.partial(_tell, pipe)
    assert compaction.compact_lake.__kwdefaults__ is not None
    compaction.compact_lake.__kwdefaults__["memory_bytes"] = MEMORY_BYTES
    commit = Warehouse.commit_compaction

    def committed(self: Warehouse, prepared: Any, *more: Any) -> Any:
        made = commit(self, prepared, *more)
        tell(f"compacted {prepared.merge.span}{' late' * bool(made.given_up_count)}")
        return made

    Warehouse.commit_compaction = committed  # type: ignore[method-assign]
    move = Warehouse.move_window

    def moved(self: Warehouse) -> Any:
        if (step := move(self, moment.replace(hour=0) - timedelta(days=1))) is not None:
            tell("moved the window")
        return step

    Warehouse.move_window = moved  # type: ignore[method-assign]
    forkserver.watch(tell, COMPACTION_PHASES)
    maintenance.Warehouse = functools.partial(Warehouse, clock=lambda: moment)  # type: ignore[misc, assignment]
    _command(pipe, environ, maintenance.compact)


def spoil(pipe: int, data: str, hour: str, projects: list[str], namespaces: list[int], folder: str) -> None:
    """Load an hour of another world, which has to be redone."""
    _tell(pipe, "> spoil")
    spoil_hour(Warehouse(Path(data)), datetime.fromisoformat(hour), projects, namespaces, Path(folder))
    _tell(pipe, "= []")


def read(pipe: int, questions: int, data: str, seed: int, keep: bool) -> None:
    """Answer a query for each byte: in a file that stays open, with its first answer, and in a newly opened one.

    Files stay open for a random time; with `keep`, the first one until the end.
    """
    chance = random.Random(seed)
    held: list[tuple[duckdb.DuckDBPyConnection, tuple[Any, ...]]] = []
    while os.read(questions, 1):
        _tell(pipe, "> question")
        if not held or not keep or chance.random() < 0.7:
            connection = duckdb.connect()
            # attached, since a second connection to one path in a process would share the first one's file
            connection.execute(f"ATTACH '{data}/warehouse.duckdb' AS warehouse (READ_ONLY)")
            connection.execute("USE warehouse")
            connection.execute("SET threads = 1")
            assert_whole_loads(connection)
            held.append((connection, whole(connection)))
            assert [found[0] for _, found in held] == sorted(found[0] for _, found in held), "an older state came later"
        connection, before = chance.choice(held)
        assert (now := whole(connection)) == before, f"a file that is open has changed: {before}, then {now}"
        _tell(pipe, f"< question\nfound {json.dumps(held[-1][1])}")
        while len(held) > 1 + keep and (len(held) > 3 or chance.random() < 0.7):
            held.pop(chance.randrange(int(keep), len(held)))[0].close()
    _tell(pipe, "= []")


def whole(connection: duckdb.DuckDBPyConnection) -> tuple[Any, ...]:
    """The revision of a publication and what belongs to it; each page that is asked for has its bodies."""
    found = connection.execute(WHOLE).fetchall()[0]
    wanted, count, bodies = connection.execute(BODIES, [found[0]]).fetchall()[0]
    assert count == wanted, f"{count} bodies of {wanted} pages"
    return (*found, bodies)


def _publications(pipe: int) -> None:
    """Report how each publication was made."""
    original = Warehouse.publish

    def published(self: Warehouse, *arguments: Any) -> Any:
        made = original(self, *arguments)
        _tell(pipe, f"published {'anew' if made.changed else 'nothing'}")
        return made

    Warehouse.publish = published  # type: ignore[method-assign]


def _command(pipe: int, environ: dict[str, str], command: click.Command) -> None:
    os.environ.update(environ)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command.main([], standalone_mode=False)
    _tell(pipe, "= []")


def _tell(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())
