"""The views over the lake in the published file: bodies, and the pages of the kept snapshots.

They name each lake file by its absolute path, so that they work from any working directory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from resources.datasets.paths import with_bodies, with_rows
from resources.tables import (
    ARTICLE_BODIES,
    ARTICLE_CHANGES,
    ARTICLES,
    LIVE_VIEWS,
    LOOKUPS,
    SNAPSHOT_ARTICLES,
    STREAM_VIEWS,
    VISIBILITY_CHANGES,
)
from resources.warehouse.database.connect import answer, has_table
from resources.warehouse.database.formulas import STATE
from resources.warehouse.database.schema import comments
from resources.warehouse.database.sql import column_list, identifier, nulls, quoted, statement
from resources.warehouse.live.views import live_views
from resources.warehouse.load.once import Kept
from resources.warehouse.load.snapshot_rows import versions
from resources.warehouse.read.faults import faults
from resources.warehouse.read.history import ColdFile, has_superseded, passed_over, window
from resources.warehouse.views import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from resources.tables import Table
    from resources.warehouse.faulty import FaultyFile
    from resources.warehouse.load.once_hours import KeptHours
    from resources.warehouse.load.snapshot_rows import Version
    from resources.warehouse.read.faults import Looked
    from resources.warehouse.read.history import Window


#: What the name of a view that analysts see has before it where it names the files.
_INNER = "lake_"
#: Views that macros alone ask.
_BELOW = ("snapshot_pages", "snapshot_states")


@dataclass(frozen=True)
class Sources:
    """The lake files behind the views: those of hours, those of each kept snapshot, and those that are gone or damaged.

    `files`, `compacted` (those with the bodies) and `snapshots` are of articles, `kept` are those of other datasets
    whose bodies are asked for. `superseded_in`:
    the folder of the compacted files, with its slash, where rows of them are passed over; else empty. `cold`: those of
    the compacted files
    that may have changes of hours before the `window`. `live`: the folder of the stream; `is_stream_mixed`: files of it
    lack declared columns.
    `has_visibility`: whether changes of visibility are kept beside those of the files.
    """

    files: tuple[str, ...]
    looked_up: tuple[str, ...]
    snapshots: tuple[Version, ...]
    faulty: tuple[FaultyFile, ...]
    kept: tuple[Kept | KeptHours, ...] = ()
    compacted: tuple[str, ...] = ()
    superseded_in: str = ""
    window: Window | None = None
    cold: tuple[ColdFile, ...] = ()
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
        of_snapshots = (*(v.paths for v in self.snapshots), *(v.files for v in self.kept))
        return len(self.files) + len(self.compacted) + len(self.looked_up) + sum(map(len, of_snapshots))

    @property
    def versions(self) -> list[list[str]]:
        """Identifier and version of each snapshot that the views read."""
        return [
            *([version.snapshot_id, version.snapshot_version] for version in self.snapshots),
            *([one.snapshot_id, one.snapshot_version] for one in self.kept if isinstance(one, Kept)),
        ]


def sources(connection: duckdb.DuckDBPyConnection, lake_root: Path, looked: Looked | None = None) -> Sources:
    """The files that the ledger names, by whether they can be read; `looked`: the last look at them (see `faults`)."""
    root = lake_root.resolve()
    named = connection.execute(
        "SELECT table_name, lake_path FROM loads WHERE table_name IN ('article_changes', 'lookups') AND row_count > 0 "
        "AND compaction_id IS NULL ORDER BY batch_hour, lake_path"
    ).fetchall()
    found: list[tuple[str]] = []
    superseded = False
    if has_table(connection, "compacted_files"):
        found = answer(
            connection,
            "SELECT lake_path FROM compacted_files WHERE table_name = 'article_changes' ORDER BY first_hour, lake_path",
        )
        superseded = has_superseded(connection)
    known = window(connection)
    compacted = [root / with_bodies(relative) for (relative,) in found]
    cold = (
        []
        if known is None
        else answer(
            connection,
            "SELECT lake_path, columns_version FROM compacted_files WHERE table_name = 'article_changes' AND "
            "first_hour < ? ORDER BY first_hour, lake_path",
            [known.first_hour],
        )
    )
    paths = [root / relative for table, relative in named if table == "article_changes"]
    looked_up = [root / relative for table, relative in named if table == "lookups"]
    kept = versions(connection, lake_root, checked=False)
    others = bodies.kept(connection, lake_root)
    of_snapshots = (*(version.paths for version in kept), *(version.files for version in others))
    older = [root / path for path, _ in cold]
    # an older compacted file has its bodies itself
    wanted = [*paths, *dict.fromkeys([*compacted, *older]), *looked_up]
    wanted += [Path(path) for several in of_snapshots for path in several]
    # of two files with the same rows the views need one, and the next compaction needs the other as well
    wanted += [Path(with_rows(str(path))) for path in wanted]
    missing = faults(connection, lake_root, dict.fromkeys(wanted), looked)
    return Sources(
        files=tuple(str(path) for path in paths if path not in missing),
        looked_up=tuple(str(path) for path in looked_up if path not in missing),
        compacted=tuple(str(path) for path in compacted if path not in missing),
        superseded_in=f"{root}/" if superseded else "",
        window=known,
        cold=tuple(ColdFile(str(root / path), version) for path, version in cold if root / path not in missing),
        snapshots=tuple(
            replace(version, paths=tuple(path for path in version.paths if Path(path) not in missing))
            for version in kept
        ),
        kept=tuple(one.without({str(path) for path in missing}) for one in others),
        faulty=tuple(missing.values()),
        has_visibility=has_table(connection, VISIBILITY_CHANGES.name)
        and bool(answer(connection, f"SELECT 1 FROM {VISIBILITY_CHANGES.name} LIMIT 1")),  # noqa: S608  a declared name
    )


def shown() -> tuple[Table, ...]:
    """The views that analysts see."""
    return (
        ARTICLES,
        ARTICLE_CHANGES.narrow,
        ARTICLE_BODIES,
        SNAPSHOT_ARTICLES.narrow,
        *bodies.views(),
        *LIVE_VIEWS,
        *STREAM_VIEWS,
    )


def frames() -> Iterator[str]:
    """The statements for the views that analysts see, with their comments, over internal views without lake files.

    Making the internal ones again (`make_views`) leaves them, and their comments, as they are.
    """
    yield from _internal(Sources((), (), (), ()))
    for table in shown():
        inner = identifier(f"{_INNER}{table.name}")
        query = f"SELECT {column_list(table)} FROM internal.{inner}"  # noqa: S608  declared names
        yield f"CREATE VIEW main.{identifier(table.name)} AS {query}"
        yield from comments(table, "VIEW")
    lookups = LOOKUPS.narrow
    yield f"CREATE VIEW main.{lookups.name} AS SELECT {column_list(lookups)} FROM internal.{lookups.name}"  # noqa: S608
    yield from comments(lookups, "VIEW")


def make_views(connection: duckdb.DuckDBPyConnection, found: Sources) -> None:
    """Let the views find these files."""
    for made in _internal(found):
        connection.execute(made)


def _all_changes(found: Sources) -> list[str]:
    """The queries for the changes that the file itself holds, those in the lake."""
    columns = column_list(ARTICLE_CHANGES.narrow)
    parts = [f"SELECT {columns} FROM internal.{ARTICLE_CHANGES.name}"]  # noqa: S608  declared names
    if found.window is not None:
        parts += found.window.cold(found.cold, found.superseded_in)
    if found.has_visibility:
        # only rows of `live_changes` have a place in the stream
        settled = "* REPLACE (CAST(NULL AS BIGINT) AS event_partition, CAST(NULL AS BIGINT) AS event_offset)"
        parts.append(f"SELECT {columns} FROM (SELECT {settled} FROM main.{VISIBILITY_CHANGES.name})")  # noqa: S608
    return parts


def _internal(found: Sources) -> Iterator[str]:
    """The statements that make the internal views."""
    for name, query in _queries(found).items():
        inner = name if name in _BELOW else f"{_INNER}{name}"
        yield f"CREATE OR REPLACE VIEW internal.{identifier(inner)} AS\n{query}"
    if found.live:
        live = live_views(found.live, is_mixed=found.is_stream_mixed)
    else:
        live = ((f"{_INNER}{view.name}", f"SELECT {nulls(view)} WHERE false") for view in (*LIVE_VIEWS, *STREAM_VIEWS))
    for name, query in live:
        yield f"CREATE OR REPLACE VIEW internal.{identifier(name)} AS\n{query}"


def _queries(found: Sources) -> dict[str, str]:
    """The query of each view, by its name; a part without files would not be a query."""
    present = [version for version in found.snapshots if version.paths]
    of_articles = [version.bodies() for version in present]
    left_out = passed_over(found.superseded_in, bodies=True)
    for name, files in (
        ("article_bodies_looked_up", found.looked_up),
        ("article_bodies", found.files),
        ("article_bodies_compacted", found.compacted),
    ):
        if files:
            names = ", ".join(quoted(path) for path in files)
            of_articles.insert(0, statement(f"views/{name}", files=f"[{names}]", superseded=left_out))
    states = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in STATE.items())
    views = {
        "articles": ([f"SELECT {column_list(ARTICLES)} FROM internal.{ARTICLES.name}"], nulls(ARTICLES)),  # noqa: S608
        "article_changes": (_all_changes(found), nulls(ARTICLE_CHANGES.narrow)),
        "article_bodies": (of_articles, nulls(ARTICLE_BODIES)),
        "snapshot_articles": ([version.pages() for version in present], nulls(SNAPSHOT_ARTICLES.narrow)),
        "snapshot_pages": ([version.articles() for version in present], nulls(ARTICLES)),
        "snapshot_states": ([version.states() for version in present], states),
        **{view.name: (bodies.parts(view, found.kept, left_out), nulls(view)) for view in bodies.views()},
    }
    return {
        name: "\nUNION ALL\n".join(parts or [f"SELECT {nothing} WHERE false"])
        for name, (parts, nothing) in views.items()
    }
