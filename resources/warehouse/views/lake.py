"""The views over the lake in the published file: bodies, and the pages of the kept snapshots.

They name each lake file by its absolute path, so that they work from any working directory.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from resources.datasets import Family, datasets
from resources.datasets.paths import with_rows
from resources.tables import (
    ARTICLE_BODIES,
    ARTICLES,
    LIVE_VIEWS,
    LOOKUPS,
    STREAM_VIEWS,
    VISIBILITY_CHANGES,
)
from resources.warehouse.database.connect import answer
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import STATE, column_list, identifier, nulls, quoted, statement
from resources.warehouse.read.faults import VIEWS, faults, publication
from resources.warehouse.read.history import LEAVING, window
from resources.warehouse.read.lake_parts import lake_parts
from resources.warehouse.views.live import live_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from resources.tables import Table
    from resources.warehouse.errors import FaultyFile
    from resources.warehouse.read.faults import Looked
    from resources.warehouse.read.history import Window
    from resources.warehouse.read.lake_parts import LakePart


#: What the name of a view that analysts see has before it where it names the files.
_INNER = "lake_"
#: The dataset of snapshots whose rows are read from the lake.
(_IN_LAKE,) = (dataset for dataset in datasets(Family.SNAPSHOT) if dataset.rows_stay_in_lake)
#: Views that macros alone ask.
_BELOW = ("snapshot_pages", "snapshot_states")


@dataclass(frozen=True)
class Sources:
    """The lake files behind the views, less those that are gone or damaged.

    Attributes:
        parts: Of each dataset with page text, and of the snapshots whose rows stay in the lake.
        looked_up: Files of lookups.
        faulty: The files that are gone or damaged.
        window: The months of changes that the build file holds itself; None: all.
        cold: Compacted files that may have changes of hours before them.
        versions: Identifier and version of each kept snapshot.
        live: Folder of the stream.
        is_stream_mixed: Files of the stream lack declared columns.
        has_visibility: Changes of visibility are kept beside those of the files.
    """

    root: Path
    parts: tuple[LakePart, ...] = ()
    looked_up: tuple[str, ...] = ()
    faulty: tuple[FaultyFile, ...] = ()
    window: Window | None = None
    cold: tuple[str, ...] = ()
    versions: Sequence[list[str]] = ()
    live: str = ""
    is_stream_mixed: bool = False
    has_visibility: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The files that are gone or damaged, relative to the lake."""
        return tuple(file.lake_path for file in self.faulty)

    @property
    def count(self) -> int:
        """Files that the views read."""
        return len(self.looked_up) + sum(len(part.paths) for part in self.parts)


def sources(connection: duckdb.DuckDBPyConnection, lake_root: Path, looked: Looked | None = None) -> Sources:
    """Return the files that the ledger names, by whether they can be read.

    `looked`: the last check of the files (see `faults`).
    """
    root = lake_root.resolve()
    parts = [part for dataset in datasets() if dataset.bodies for part in lake_parts(connection, lake_root, dataset)]
    named = "SELECT lake_path FROM loads WHERE table_name = $table AND row_count > 0 ORDER BY lake_path"
    looked_up = [str(root / path) for (path,) in answer(connection, named, {"table": LOOKUPS.name})]
    cold, known = [], window(connection)
    if known is not None:
        older = (
            "SELECT lake_path FROM compacted_files WHERE table_name = $table AND first_hour < $first "
            "ORDER BY first_hour, lake_path"
        )
        values = {"table": LEAVING.name, "first": known.first_hour}
        cold = [str(root / path) for (path,) in answer(connection, older, values)]
    wanted = [*(path for part in parts for path in part.paths), *cold, *looked_up]
    # of two files with the same rows the views need one, and the next compaction needs the other as well
    wanted += [with_rows(path) for path in wanted]
    found = faults(connection, lake_root, map(Path, dict.fromkeys(wanted)), looked)
    missing = {str(path) for path in found}
    return Sources(
        root=root,
        parts=tuple(part.without(missing) for part in parts),
        looked_up=tuple(path for path in looked_up if path not in missing),
        faulty=tuple(found.values()),
        window=known,
        cold=tuple(path for path in cold if path not in missing),
        versions=[[part.snapshot_id, part.snapshot_version] for part in parts if part.source_at is not None],
        has_visibility=bool(answer(connection, f"SELECT 1 FROM {VISIBILITY_CHANGES.name} LIMIT 1")),  # noqa: S608  a declared name
    )


def _text_views() -> tuple[Table, ...]:
    """The views of page text. Hours and snapshots may have one together."""
    return tuple(dict.fromkeys(dataset.bodies for dataset in datasets() if dataset.bodies is not None))


def shown() -> tuple[Table, ...]:
    """The views that analysts see."""
    return (
        ARTICLES,
        LEAVING.table.narrow,
        _IN_LAKE.table.narrow,
        *_text_views(),
        *LIVE_VIEWS,
        *STREAM_VIEWS,
    )


def frames() -> Iterator[str]:
    """The statements for the views that analysts see, with their comments, over internal views without lake files.

    Making the internal ones again (`make_views`) leaves them, and their comments, as they are.
    """
    yield from _internal(Sources(Path("/"))).values()
    for table in shown():
        inner = identifier(f"{_INNER}{table.name}")
        query = f"SELECT {column_list(table)} FROM internal.{inner}"  # noqa: S608  declared names
        yield f"CREATE VIEW main.{identifier(table.name)} AS {query}"
        yield from comments(table, "VIEW")
    lookups = LOOKUPS.narrow
    yield f"CREATE VIEW main.{lookups.name} AS SELECT {column_list(lookups)} FROM internal.{lookups.name}"  # noqa: S608
    yield from comments(lookups, "VIEW")


def make_views(connection: duckdb.DuckDBPyConnection, found: Sources) -> None:
    """Let the views find these files, inside a transaction. Views that would stay the same are left alone."""
    made = publication(connection).get(VIEWS, {})
    wanted = _internal(found)
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in wanted.items()}
    for name, text in wanted.items():
        if made.get(name) != digests[name]:
            connection.execute(text)
    connection.execute("DELETE FROM internal.publication WHERE name = ?", [VIEWS])
    connection.execute("INSERT INTO internal.publication VALUES (?, ?)", [VIEWS, json.dumps(digests)])


def _all_changes(found: Sources) -> list[str]:
    """The queries for the changes that the file itself holds, and those in the lake."""
    columns = column_list(LEAVING.table.narrow)
    parts = [f"SELECT {columns} FROM internal.{LEAVING.name}"]  # noqa: S608  declared names
    if found.window is not None:
        parts += found.window.cold(found.root, found.cold)
    if found.has_visibility:
        # only rows of `live_changes` have a place in the stream
        settled = "* REPLACE (CAST(NULL AS BIGINT) AS event_partition, CAST(NULL AS BIGINT) AS event_offset)"
        parts.append(f"SELECT {columns} FROM (SELECT {settled} FROM main.{VISIBILITY_CHANGES.name})")  # noqa: S608
    return parts


def _internal(found: Sources) -> dict[str, str]:
    """The statements that make the internal views, by the names of these."""
    texts = {name if name in _BELOW else f"{_INNER}{name}": query for name, query in _queries(found).items()}
    if found.live:
        texts |= live_views(found.live, is_mixed=found.is_stream_mixed)
    else:
        texts |= {f"{_INNER}{view.name}": f"SELECT {nulls(view)} WHERE false" for view in (*LIVE_VIEWS, *STREAM_VIEWS)}
    return {name: f"CREATE OR REPLACE VIEW internal.{identifier(name)} AS\n{query}" for name, query in texts.items()}


def _queries(found: Sources) -> dict[str, str]:
    """The query of each view, by its name; a part without files would not be a query."""
    present = [part for part in found.parts if part.paths]
    of_snapshots = [part for part in present if part.dataset.rows_stay_in_lake]
    texts = {view.name: [part.bodies() for part in present if part.dataset.bodies is view] for view in _text_views()}
    if found.looked_up:
        names = ", ".join(map(quoted, found.looked_up))
        texts[ARTICLE_BODIES.name].append(statement("views/article_bodies_looked_up", files=f"[{names}]"))
    states = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in STATE.items())
    views = {
        "articles": ([f"SELECT {column_list(ARTICLES)} FROM internal.{ARTICLES.name}"], nulls(ARTICLES)),  # noqa: S608
        LEAVING.name: (_all_changes(found), nulls(LEAVING.table.narrow)),
        _IN_LAKE.name: (
            [part.select(_IN_LAKE.table.narrow) for part in of_snapshots],
            nulls(_IN_LAKE.table.narrow),
        ),
        "snapshot_pages": ([part.select(ARTICLES) for part in of_snapshots], nulls(ARTICLES)),
        "snapshot_states": ([part.states() for part in of_snapshots], states),
        **{view.name: (texts[view.name], nulls(view)) for view in _text_views()},
    }
    return {
        name: "\nUNION ALL\n".join(parts or [f"SELECT {nothing} WHERE false"])
        for name, (parts, nothing) in views.items()
    }
