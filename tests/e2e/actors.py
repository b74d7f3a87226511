"""What the processes of a campaign do: bring in, spoil, compact, publish, read. Each reports in lines how far it is."""

import contextlib
import functools
import io
import json
import os
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from assets.steps import compaction
from pipelines.cli import maintenance
from resources.warehouse import Warehouse
from tests.e2e import forkserver
from tests.spoiling import spoil as spoil_hour

#: So little that the rows of a month are sorted in pieces on the disk; much less makes many pieces, which take a minute
#: to merge.
MEMORY_BYTES = 1 << 25
#: Where each phase of a compaction is entered.
COMPACTION_PHASES = (
    (Warehouse, "prepare_compaction", "prepare"), (compaction, "compact", "rewrite"),
    (Warehouse, "commit_compaction", "take in"), (Warehouse, "move_window", "move window"),
)  # fmt: skip
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


def work(tell):
    """Do one piece of work after the other, as asked for: a function below and its arguments, in a line of JSON."""
    _report(tell)
    forkserver.watch(tell, (*forkserver.PHASES, *COMPACTION_PHASES))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        tell(f"= {json.dumps(globals()[name](*arguments))}")


#: Hours, snapshots, or nothing but what is pending, as `wme run` brings them in, and publication.
bring_in = forkserver.main_job


def publish(environ, now):
    forkserver.runs.processes.opened = forkserver.without_history
    forkserver.stand_still(datetime.fromisoformat(now))
    return _command(environ, maintenance.publish)


def compact(environ, now):
    """Run `wme compact` at a moment, to which the changes' window is moved too; each day is settled when it ends."""
    moment = datetime.fromisoformat(now)
    maintenance.Warehouse = functools.partial(_Moving, clock=lambda: moment)  # type: ignore[misc, assignment]
    return _command(environ, maintenance.compact)


class _Moving(Warehouse):
    def move_window(self):
        return super().move_window(self._clock().replace(hour=0) - timedelta(days=1))


def spoil(data, hour, projects, namespaces, folder):
    """Load an hour of another world, which has to be redone."""
    spoil_hour(Warehouse(Path(data)), datetime.fromisoformat(hour), projects, namespaces, Path(folder))
    return []


def read(tell, data, seed, keep):
    """Answer a query for each line: in a file that stays open, with its first answer, and in a newly opened one.

    Files stay open for a random time; with `keep`, the first one until the end.
    """
    chance = random.Random(seed)
    held: list[tuple[duckdb.DuckDBPyConnection, tuple[Any, ...]]] = []
    for _ in sys.stdin:
        tell("> question")
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
        tell(f"< question\nfound {json.dumps(held[-1][1])}\n= []")
        while len(held) > 1 + keep and (len(held) > 3 or chance.random() < 0.7):
            held.pop(chance.randrange(int(keep), len(held)))[0].close()


def whole(connection):
    """The revision of a publication and what belongs to it; each page that is asked for has its bodies."""
    found = connection.execute(WHOLE).fetchall()[0]
    wanted, count, bodies = connection.execute(BODIES, [found[0]]).fetchall()[0]
    assert count == wanted, f"{count} bodies of {wanted} pages"
    return (*found, bodies)


def assert_whole_loads(connection):
    """See that the tables hold what the ledger beside them says: of each hour and snapshot all rows, or none."""
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
        expected = connection.execute(held, [table]).fetchall()
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == expected


def _report(tell):
    """Report how each publication and each step of a compaction was made, the latter with little memory."""
    assert compaction.compact_lake.__kwdefaults__ is not None
    compaction.compact_lake.__kwdefaults__["memory_bytes"] = MEMORY_BYTES
    publish, commit, move = Warehouse.publish, Warehouse.commit_compaction, Warehouse.move_window

    def published(self, *arguments):
        made = publish(self, *arguments)
        tell(f"published {'anew' if made.changed else 'nothing'}")
        return made

    def committed(self, prepared, *more):
        made = commit(self, prepared, *more)
        tell(f"compacted {prepared.merge.span}{' late' * (made < len(prepared.parts))}")
        return made

    def moved(self, *arguments):
        if (step := move(self, *arguments)) is not None:
            tell("moved the window")
        return step

    for name, report in (("publish", published), ("commit_compaction", committed), ("move_window", moved)):
        setattr(Warehouse, name, report)


def _command(environ, command):
    os.environ.update(environ)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command.main([], standalone_mode=False)
    return []
