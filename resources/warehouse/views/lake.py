"""Lake views in the published file, for page text, snapshot pages and the realtime stream.

The views contain the absolute path of each lake file, so queries work from any working directory. Stream files are
listed at query time, so an open reader sees events as soon as their file is written. The ledger in the same file
determines which hours have an hourly file. An event therefore never appears twice: the event is live only until its
hourly file is published.

internal.live_window        the first hour without a file
internal.lake_live_files    the stream files to read, without files that were merged into larger ones
internal.lake_live_rows     the rows of these files, with file name and row number
internal.live_events        distinct events of hours without a file, with file name and row number
internal.live_states        the events that can change which pages exist, with their age
internal.settled_states     the pages of `articles`, with the same columns
internal.lake_stream_facts  the stream's progress and runs, as recorded in the newest file
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from resources import files
from resources.datasets import Family, datasets
from resources.datasets.live import EVENTS, METADATA_KEY
from resources.datasets.paths import with_rows
from resources.files import set_aside
from resources.storage import UNREADABLE, is_damage, read_footer
from resources.tables import ARTICLE_BODIES, ARTICLES, LOOKUPS, VISIBILITY_CHANGES, Table
from resources.tables.views import LIVE_VIEWS, STREAM_RUNS, STREAM_VIEWS
from resources.warehouse.database.connect import answer
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import STATE, column_list, filled, identifier, nulls, quoted, statement
from resources.warehouse.read.lake_parts import LEAVING, LakePart, Window, cold_files, lake_parts, window
from resources.warehouse.read.ledger import VIEWS, FaultyFile, faults, publication

#: The snapshot dataset whose rows are read from the lake.
(_IN_LAKE,) = (dataset for dataset in datasets(Family.SNAPSHOT) if dataset.rows_stay_in_lake)


@dataclass(frozen=True)
class Sources:
    """Lake files that the views can use, and the dataset partitions in these files.

    `window` is the time range of changes in the build file itself, or None if the file contains all changes. `cold`
    contains the compacted files with older changes.
    """

    root: Path
    parts: tuple[LakePart, ...] = ()
    faulty: tuple[FaultyFile, ...] = ()
    window: Window | None = None
    cold: tuple[str, ...] = ()
    has_visibility: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths of missing and damaged files, relative to the lake."""
        return tuple(file.lake_path for file in self.faulty)

    @property
    def count(self) -> int:
        """Number of lake files that the views read."""
        return sum(len(part.paths) for part in self.parts)


_HELD = (
    "SELECT table_name FROM loads UNION SELECT table_name FROM compacted_files UNION SELECT table_name FROM snapshots"
)


def sources(connection: duckdb.DuckDBPyConnection, lake_root: Path, facts: Mapping[str, Any] | None = None) -> Sources:
    """Return the readable and the faulty files listed in the ledger. See `faults` for `facts`."""
    root = lake_root.resolve()
    # most mirrors have files of only a few datasets, and each of these queries takes milliseconds
    held = {name for (name,) in answer(connection, _HELD)}
    of_pages = [one for one in datasets() if (one.bodies or one.table is LOOKUPS) and one.name in held]
    parts = [part for dataset in of_pages for part in lake_parts(connection, lake_root, dataset)]
    known = window(connection)
    cold = [] if known is None else [str(root / path) for path, *_ in cold_files(connection)]
    wanted = [*(path for part in parts for path in part.paths), *cold]
    # of two files with the same rows, the views need only one, but the next compaction needs both
    wanted += [with_rows(path) for path in wanted]
    found = faults(connection, lake_root, map(Path, dict.fromkeys(wanted)), facts)
    missing = {str(path) for path in found}
    return Sources(
        root=root,
        parts=tuple(replace(part, paths=tuple(p for p in part.paths if p not in missing)) for part in parts),
        faulty=tuple(found.values()),
        window=known,
        cold=tuple(path for path in cold if path not in missing),
        has_visibility=bool(answer(connection, f"SELECT 1 FROM {VISIBILITY_CHANGES.name} LIMIT 1")),  # noqa: S608  a declared name
    )


def _text_views() -> tuple[Table, ...]:
    """Return the page text views. Hours and snapshots can share a view."""
    return tuple(dict.fromkeys(dataset.bodies for dataset in datasets() if dataset.bodies is not None))


def shown() -> tuple[Table, ...]:
    """Return the views for analysts."""
    return (ARTICLES, LEAVING.table.narrow, _IN_LAKE.table.narrow, *_text_views(), *LIVE_VIEWS, *STREAM_VIEWS)


def frames() -> Iterator[str]:
    """Yield the statements for the analysts' views, with comments, and for initially empty internal views.

    `make_views` replaces only the internal views; the analysts' views and their comments stay unchanged.
    """
    yield from _internal(Sources(Path("/")), None).values()
    for table in shown():
        # the internal view lists the lake files
        inner = identifier(f"lake_{table.name}")
        query = f"SELECT {column_list(table)} FROM internal.{inner}"  # noqa: S608  declared names
        yield f"CREATE VIEW main.{identifier(table.name)} AS {query}"
        yield from comments(table, "VIEW")
    lookups = LOOKUPS.narrow
    yield f"CREATE VIEW main.{lookups.name} AS SELECT {column_list(lookups)} FROM internal.{lookups.name}"  # noqa: S608
    yield from comments(lookups, "VIEW")


def make_views(connection: duckdb.DuckDBPyConnection, found: Sources, stream: Path | None = None) -> None:
    """Make the internal views read these files, and a stream folder, inside a transaction. Skip unchanged views."""
    made = publication(connection).get(VIEWS, {})
    wanted = _internal(found, stream)
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in wanted.items()}
    for name, text in wanted.items():
        if made.get(name) != digests[name]:
            connection.execute(text)
    connection.execute("DELETE FROM internal.publication WHERE name = ?", [VIEWS])
    connection.execute("INSERT INTO internal.publication VALUES (?, ?)", [VIEWS, json.dumps(digests)])


def _internal(found: Sources, stream: Path | None) -> dict[str, str]:
    """Return the statements that create the internal views, by view name.

    Without files, a view has no rows but the same columns.
    """
    present = [part for part in found.parts if part.paths]
    of_snapshots = [part for part in present if part.dataset.rows_stay_in_lake]
    bodies = {view.name: [part.bodies() for part in present if part.dataset.bodies is view] for view in _text_views()}
    for names in (", ".join(map(quoted, part.paths)) for part in present if part.dataset.table is LOOKUPS):
        bodies[ARTICLE_BODIES.name].append(statement("views/article_bodies_looked_up", files=f"[{names}]"))
    columns = column_list(LEAVING.table.narrow)
    changes = [f"SELECT {columns} FROM internal.{LEAVING.name}"]  # noqa: S608  declared names
    if found.window is not None:
        changes += found.window.cold(found.root, found.cold)
    if found.has_visibility:
        # only rows of `live_changes` have a stream partition and offset
        settled = "* REPLACE (CAST(NULL AS BIGINT) AS event_partition, CAST(NULL AS BIGINT) AS event_offset)"
        changes.append(f"SELECT {columns} FROM (SELECT {settled} FROM main.{VISIBILITY_CHANGES.name})")  # noqa: S608
    states = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in STATE.items())
    views = {
        "lake_articles": ([f"SELECT {column_list(ARTICLES)} FROM internal.{ARTICLES.name}"], nulls(ARTICLES)),  # noqa: S608
        f"lake_{LEAVING.name}": (changes, nulls(LEAVING.table.narrow)),
        f"lake_{_IN_LAKE.name}": (
            [part.select(_IN_LAKE.table.narrow) for part in of_snapshots],
            nulls(_IN_LAKE.table.narrow),
        ),
        "snapshot_pages": ([part.select(ARTICLES) for part in of_snapshots], nulls(ARTICLES)),
        "snapshot_states": ([part.states() for part in of_snapshots], states),
        **{f"lake_{view.name}": (bodies[view.name], nulls(view)) for view in _text_views()},
    }
    if stream is None:
        views |= {f"lake_{view.name}": ([], nulls(view)) for view in (*LIVE_VIEWS, *STREAM_VIEWS)}
    texts = {
        name: "\nUNION ALL\n".join(parts or [f"SELECT {nothing} WHERE false"])
        for name, (parts, nothing) in views.items()
    }
    if stream is not None:
        texts |= _live_views(str(stream), is_mixed=prepare_folder(stream))
    return {name: f"CREATE OR REPLACE VIEW internal.{identifier(name)} AS\n{query}" for name, query in texts.items()}


_log = logging.getLogger(__name__)

#: Name of an empty file that gives the views their columns if the folder has no other files. This name sorts first.
_EMPTY = "_empty.parquet"
#: Single value that sorts title and page states in the same order as `newest_state_first`.
_AGE = (
    "struct_pack(event_at := event_at, version_id := version_id, is_update := is_update, event_key := event_key, "
    "earlier := -epoch_us(source_at), lower := -namespace_id)"
)


def _live_views(folder: str, *, is_mixed: bool) -> dict[str, str]:
    """Return a query for each view over a stream folder (see `prepare_folder`), by view name, dependencies first.

    If `is_mixed` is True, some files do not contain all declared columns, so each file is opened to read its schema.
    """
    candidates = statement(
        "state/candidates", changes="internal.live_events", base="internal.bases", more=", filename, file_row_number"
    )
    counts = ", ".join(f'"{one.name}": "BIGINT"' for one in STREAM_RUNS if one.name.endswith("_count"))
    narrow = column_list(EVENTS.narrow)
    texts = {
        "live_window": statement("views/live_window"),
        "lake_live_files": statement("views/live_files"),
        "lake_live_rows": statement("views/live_rows"),
        "live_events": statement("views/live_events"),
        "live_states": statement("views/live_states", candidates=candidates, age=_AGE),
        "settled_states": statement("views/settled_states", age=_AGE),
        "lake_live_changes": f"SELECT {column_list(EVENTS)} FROM internal.lake_live_rows "  # noqa: S608  our own names
        "SEMI JOIN internal.live_events USING (filename, file_row_number)",
        "lake_changes_live": (
            f"SELECT {narrow} FROM main.article_changes "  # noqa: S608
            f"UNION ALL SELECT {narrow} FROM internal.lake_live_changes"
        ),
        "lake_stream_facts": statement("views/stream_facts", counts=counts, key=METADATA_KEY),
        "lake_stream_state": statement("views/stream_state"),
        "lake_stream_runs": statement("views/stream_runs"),
        "lake_articles_live": statement("views/articles_live", columns=column_list(ARTICLES), age=_AGE),
    }
    found = {"files": quoted(f"{folder}/**/*.parquet"), "folder": quoted(folder), "mixed": str(is_mixed).lower()}
    return {name: filled(text, **found) for name, text in texts.items()}


def prepare_folder(folder: Path) -> bool:
    """Prepare a stream folder for the views. Return True if some files do not contain all declared columns.

    Unreadable files are renamed, because they would make the views fail. An empty folder gets a file without rows.
    """
    wanted, is_mixed = set(EVENTS.schema.names), False
    for path in sorted(folder.glob("*/*/*.parquet")):
        try:
            is_mixed |= not wanted <= set(read_footer(path).schema.to_arrow_schema().names)
        except UNREADABLE as error:
            if is_damage(error):
                aside = set_aside(path)
                _log.warning(
                    "The stream file %s cannot be read (%s) and was renamed to %s. Its events are missing until the "
                    "stream or the hourly files deliver them again.",
                    *(path, error, aside.name),
                )
    empty = folder / _EMPTY
    try:
        found = pq.read_schema(empty).equals(EVENTS.schema)
    except UNREADABLE:
        found = False
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = empty.with_suffix(".tmp")
        pq.write_table(EVENTS.schema.empty_table(), temporary)
        files.put(temporary, empty)
    return is_mixed
