"""A data folder with everything that a mirror can hold, and a digest of each answer of its published file.

The folder is the same each time. A program as well: `python -m tests.integration.recorded FOLDER >
tests/integration/recorded.json` records such a folder, and the digests that `test_recorded.py` expects.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from assets.steps.compaction import compact_lake
from resources.data_folder import claim
from resources.datasets import SNAPSHOT_ARTICLES, SNAPSHOT_ENTITIES, STRUCTURED_ARTICLES
from resources.engine import Engine
from resources.warehouse import Warehouse
from tests.asking_everything import queries
from tests.integration.mirror import Mirror, mirrored

NOW = datetime(2026, 2, 3, 5, 40, tzinfo=UTC)
PROJECTS = ("enwiki", "frwiki")
NAMESPACES = (0, 10)
#: Columns that say when, from where or in how many bytes something was done here. They differ from one recording to the
#: next.
_OF_THE_WORK = (
    r"^(.*_path|.*_seconds|.*_bytes|.*_size|loaded_at|checked_at|published_at|downloaded_at|converted_at|looked_up_at|"
    r"compared_at|compacted_at|began_at|ended_at|recorded_at|taken_in_at|run_id)$"
)
#: Of the publication and of the runs of the stream, which differ each time.
_LEFT_OUT = ("about", "stream_runs")


@contextmanager
def recorded(
    folder: Path, *, projects: tuple[str, ...] = PROJECTS, amid: Callable[[], object] = lambda: None
) -> Iterator[Mirror]:
    """Fill a data folder with every kind of data, and publish it.

    It has hours, one of them exported again, snapshots, Wikidata, structured contents, a stream and a compaction.
    Lookups are left out: their moments become part of `articles`. `amid` is called while a snapshot of each kind and
    the last hour are fetched, and after the first step of the compaction and of the stream.
    """
    scope = {"projects": projects, "namespaces": NAMESPACES, "wikidata": True}
    world = {"changes_per_hour": 30, "entities": 60, "body_bytes": 1500, "chunk_bytes": 20_000, "stream_rate": 0}
    with mirrored(folder, now=NOW, **scope, **world) as mirror:
        claim(mirror.data, mirror.sandbox.url)
        assert mirror.run("reference").success
        *hours, last = mirror.newest(4)
        assert mirror.materialize(hours).success
        for dataset in (SNAPSHOT_ARTICLES, STRUCTURED_ARTICLES, SNAPSHOT_ENTITIES):
            for made in mirror.take_snapshots(dataset=dataset, **mirror.at("download ", amid)):
                assert made.success, made.sentence
        later = Warehouse(mirror.data, clock=lambda: NOW + timedelta(days=40))
        first_step, say = [amid], lambda *_: first_step.pop()() if first_step else None
        assert compact_lake(mirror.layout, later, Engine(workers=1), memory_bytes=1 << 23, say=say)
        assert mirror.run("publish").success
        since, first_step = NOW - timedelta(minutes=90), [amid]
        _, warned = mirror.listen(mirror.published_since(since), since, connections=1, say=say)
        assert warned == []
        assert mirror.materialize([last], **mirror.at("download ", amid)).success
        # the service exports an hour again, with a line that nobody can read
        path = mirror.download_path(last, projects[-1])
        mirror.sandbox.faults.add(path, kind="line_malformed", where="objects", listed=True, count=None, replace=True)
        assert mirror.materialize([last]).success
        assert mirror.run("publish").success
        yield mirror


def digests(data: Path) -> dict[str, str]:
    """The number of rows and a digest of them, of each table and view, and of three calls of each macro."""
    found = {}
    with closing(Warehouse(data, clock=lambda: NOW).connect_published()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        tables = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND schema_name = 'main' AND database_name = "
            "current_database()"
        ).fetchall()
        asked = [f'FROM "main"."{name}"' for (name,) in tables] + queries(connection, 3)
        for query in asked + [_of_a_page(connection, query) for query in asked if query.endswith(")")]:
            if '"internal".' in query or any(f'"{name}"' in query for name in _LEFT_OUT):
                continue
            try:
                found[query] = _digest(connection, query)
            except duckdb.Error as error:  # an answer as well: of a title that is not there
                found[query] = type(error).__name__
    return found


def _of_a_page(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """A call of a macro, of a page and moments that are there."""
    first = "SELECT article_id, name FROM articles WHERE project_id = 'enwiki' ORDER BY ALL"
    page, name = connection.execute(first).fetchone() or (0, "")
    quoted = "'" + name.replace("'", "''") + "'"
    return (
        re.sub(r"\b100\b", str(page), query)
        .replace("'Page 1'", quoted)
        .replace("2026-11-19 06:00:00+00", f"{NOW - timedelta(minutes=70)}", 1)
        .replace("2026-11-19 06:00:00+00", f"{NOW}")
    )


def _digest(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    # names of columns are in the JSON of each row
    told = connection.execute(
        f"SELECT count(*), md5(string_agg(line, '' ORDER BY line)) FROM (SELECT md5(to_json(t)::VARCHAR) AS line FROM "
        f"(SELECT COLUMNS(lambda c: NOT regexp_matches(c, '{_OF_THE_WORK}')) FROM ({query})) AS t)"
    ).fetchone()
    return " ".join(map(str, told or ()))


if __name__ == "__main__":
    with recorded(Path(sys.argv[1])) as made:
        sys.stdout.write(json.dumps(digests(made.data), indent=1))
