"""Current page state: `articles` contains each existing page with its deciding row, and is updated hourly.

An update is current unless there is a newer update or delete of its title or a newer update of its page. "Newer" refers
to a total order by event time, revision, change type (updates after deletes), event, source (earlier sources first),
and namespace. Because earlier sources sort first, copies of an event in overlapping files yield the same state in any
loading order. A `visibility-change` never decides a state. In title comparisons, `_` equals a space. The pages in the
newest snapshot of a project and namespace compete like updates. Updates older than the snapshot's boundary do not
compete: if the snapshot does not contain their page, the page disappeared in a gap. Deletes always compete.

The computation uses two maxima: the newest row of each title and the newest update of each page. Both maxima depend
only on the loaded rows, never on the loading order. A page exists if both maxima are the same row, which is then stored
only in `articles`. Other maxima are stored in `internal.titles` or `internal.pages`, which stay small.

`_advance` applies pending changes to `articles` in these steps:

1. Find the ledger's pending files, and the rows in these files that can change a state (`fresh`).
2. If a file was reloaded, its deciding row might have disappeared, so all rows of its titles and pages compete again.
3. Find the rows of `articles` that have one of these titles or pages (`near`).
4. Compute the newest row of each title and the newest update of each page. A row that meets both criteria wins.
5. Delete rows of `articles` that are no longer winning rows. Store maxima that are not in `articles` separately.
6. Insert new winning rows with all columns, from the changes, the lookups or the base snapshot.
"""

from pathlib import Path

import duckdb

from resources.datasets import LOOKUPS, Family, datasets
from resources.files import UnusableFileError
from resources.tables import ARTICLES
from resources.warehouse.database.connect import Build
from resources.warehouse.database.sql import STATE, column_list, filled, quoted, statement, transaction
from resources.warehouse.database.workarounds import is_exhausted, memory_limit
from resources.warehouse.load.files import retire, supersede
from resources.warehouse.read.lake_parts import LakePart, cold_files, lake_parts, make_all_changes
from resources.warehouse.read.ledger import named, note_damaged
from resources.warehouse.read.reading import of_projects
from resources.warehouse.records import Applied, LakeFileError
from resources.warehouse.state.applier import Rule, count_of, one_number

#: State columns and rowid of a row in `articles`.
_LIVING = (
    "articles.rowid AS place, project_id, replace(name, '_', ' ') AS title, article_id, event_at, version_id, "
    "true AS is_update, event_key, source_at, namespace_id"
)
# After a reload, the maxima for these titles and pages are unknown, so all their rows compete again.
_HISTORY = """
INSERT INTO fresh
(
  SELECT * FROM states SEMI JOIN redone_titles USING (project_id, title)
  UNION
  SELECT * FROM states SEMI JOIN redone_pages USING (project_id, article_id)
)
EXCEPT
SELECT * FROM fresh
"""
# Store the result of `state/advance`: delete rows that are no longer current, and store maxima that do not win.
_KEEP = """
DELETE FROM internal.titles AS old
USING (SELECT project_id, title FROM moved_titles UNION SELECT project_id, title FROM new_titles) AS moved
WHERE old.project_id = moved.project_id AND old.title = moved.title;
INSERT INTO internal.titles SELECT * FROM new_titles ANTI JOIN winning USING ({row_key});
DELETE FROM internal.pages AS old
USING (SELECT project_id, article_id FROM moved_pages UNION SELECT project_id, article_id FROM new_pages) AS moved
WHERE old.project_id = moved.project_id AND old.article_id = moved.article_id;
INSERT INTO internal.pages SELECT * FROM new_pages ANTI JOIN winning USING ({row_key});
DELETE FROM articles WHERE rowid IN (SELECT place FROM leaving)
"""
_INSERT_CHANGES = """
INSERT INTO articles BY NAME
SELECT {columns}, {title_key} AS title_key, event_key
FROM (
  SELECT *, batch_hour AS source_at, replace(name, '_', ' ') AS title FROM {changes} WHERE change_type = 'update'
) AS change
-- the rows of snapshots, which are of no full hour, would only take memory
SEMI JOIN (FROM deciding WHERE source_at = time_bucket(INTERVAL 1 HOUR, source_at)) AS deciding
  USING ({row_key_of_changes})
"""
# Two lookups of a run can find the same page under different spellings of its title.
_INSERT_LOOKED_UP = """
INSERT INTO articles BY NAME
SELECT {columns}, {title_key} AS title_key, event_key
FROM (
  SELECT *, 'update' AS change_type, replace(name, '_', ' ') AS title FROM lookups
  WHERE is_found AND purpose <> 'watch'
) AS page
SEMI JOIN deciding USING ({row_key_of_changes})
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY looked_up_at, asked_name) = 1
"""
# Title and page maxima of one pass. All rows of a title or page are in the same pass.
_REBUILD_SOME = """
INSERT INTO new_titles
SELECT * FROM states SEMI JOIN renewed USING (project_id)
WHERE hash(title) % {passes} = {number}
QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_state_first}) = 1;
INSERT INTO new_pages
SELECT * FROM states SEMI JOIN renewed USING (project_id)
WHERE is_update AND hash(article_id) % {passes} = {number}
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_state_first}) = 1
"""
_REBUILD_MAXIMA = """
CREATE OR REPLACE TEMP TABLE deciding AS
SELECT new_titles.* FROM new_titles JOIN new_pages USING ({row_key});
DELETE FROM internal.titles WHERE project_id IN (SELECT project_id FROM renewed);
INSERT INTO internal.titles SELECT * FROM new_titles ANTI JOIN deciding USING ({row_key});
DELETE FROM internal.pages WHERE project_id IN (SELECT project_id FROM renewed);
INSERT INTO internal.pages SELECT * FROM new_pages ANTI JOIN deciding USING ({row_key});
DROP TABLE new_titles;
DROP TABLE new_pages;
DELETE FROM articles WHERE project_id IN (SELECT project_id FROM renewed)
"""
#: Dataset that contains the base snapshots.
(_SNAPSHOTS,) = (dataset for dataset in datasets(Family.SNAPSHOT) if dataset.state is ARTICLES)
#: Approximate memory per row, in bytes, for computing the newest row of each title.
_STATE_BYTES = 250


def apply_changes(build: Build) -> Applied:
    """Apply all pending hours, lookups and snapshots to `articles`, in one transaction.

    A project with a new snapshot is rebuilt, which takes time proportional to its number of pages. Raises
    LakeFileError, without changing anything, if a file with required older rows is missing or damaged.
    """
    try:
        return RULE.apply(build)
    except (duckdb.Error, UnusableFileError) as error:
        if isinstance(error, duckdb.Error) and is_exhausted(error):
            raise
        connection, lake_root, _ = build
        bases = lake_parts(connection, lake_root, _SNAPSHOTS, bases_only=True)
        wanted = [Path(path) for base in bases for path in base.paths]
        wanted += [lake_root.resolve() / path for path, *_ in cold_files(connection)]
        if not (found := note_damaged(connection, lake_root, wanted, _SNAPSHOTS.table.narrow.schema.names)):
            raise
        raise LakeFileError(
            f"Older rows that the current articles need cannot be read: {named(found)}. Nothing was changed; the "
            "loaded files stay pending. Lake files whose archives exist are created again. Otherwise, restore the "
            "files from a backup or load a newer snapshot."
        ) from error


def rebuild_articles(build: Build) -> Applied:
    """Rebuild `articles` from all changes and snapshots, with the same result as `apply_changes`."""
    return RULE.rebuild(build)


def drop_project(build: Build, project_id: str) -> Applied:
    """Drop a project that is no longer mirrored, and update `articles`.

    The project's rows, hours and snapshots are removed in one transaction. The lake files stay, so the project can be
    loaded again. Without this call, a project removed from the configuration keeps its last known state.
    `project_state` shows the time up to which this state is exact.
    """
    connection, key = build.connection, {"project": project_id}
    with transaction(connection):
        connection.execute("DELETE FROM internal.hidden_rows WHERE file_row IS NOT NULL AND project_id = $project", key)
        supersede(connection, "dropped", "loads.project_id = $project", key)
        for table in (*of_projects(), "internal.ended_entities"):
            connection.execute(f"DELETE FROM {table} WHERE project_id = $project", key)  # noqa: S608
        retire(connection)
        return RULE.apply_within(build, f"{RULE.renewed} UNION SELECT {quoted(project_id)}")


def _compete(connection: duckdb.DuckDBPyConnection, lake_root: Path, bases: list[LakePart], projects: str) -> None:
    """Create the `all_changes` and `states` views with all rows that can decide the states of some projects.

    Raises LakeFileError if a compacted file that might contain changes to these projects is missing.
    """
    make_all_changes(connection, lake_root, [project for (project,) in connection.execute(projects).fetchall()])
    parts = [
        statement("state/candidates", changes="all_changes", base="internal.bases", more=""),
        "SELECT * FROM internal.looked_up",
        *(base.states() for base in bases),
    ]
    connection.execute("CREATE OR REPLACE TEMP VIEW states AS\n" + "\nUNION ALL\n".join(parts))


def _advance(build: Build) -> tuple[int, int]:
    """Apply pending files of projects that are not being rebuilt. Return the numbers of pages written and removed."""
    connection, lake_root, _ = build
    if not count_of(connection, "pending ANTI JOIN renewed USING (project_id)"):
        return 0, 0
    bases = lake_parts(connection, lake_root, _SNAPSHOTS, bases_only=True, checked=True)
    # 1
    connection.execute(statement("state/apply_pending", candidates="internal.candidates"))
    # 2
    is_redone = count_of(connection, "(FROM redone_titles UNION ALL BY NAME FROM redone_pages)") > 0
    if is_redone:
        _compete(connection, lake_root, bases, "SELECT DISTINCT project_id FROM advancing")
        connection.execute(_HISTORY)
    # 3 and 4
    connection.execute(statement("state/advance", living=_LIVING))
    # 5
    removed = count_of(connection, "leaving ANTI JOIN deciding USING (project_id, article_id)")
    connection.execute(filled(_KEEP))
    # step 6: without a reload, deciding rows are in pending files, whose rows are in `article_changes`
    return _insert(connection, bases, "all_changes" if is_redone else "article_changes"), removed


def _renew(build: Build) -> int:
    """Rebuild the projects in `renewed` from all their rows, and return the number of pages written."""
    connection, lake_root, _ = build
    bases = lake_parts(connection, lake_root, _SNAPSHOTS, bases_only=True, checked=True)
    _compete(connection, lake_root, bases, "SELECT project_id FROM renewed")
    columns = ", ".join(f"{name} {kind}" for name, kind in STATE.items())
    for table in ("new_titles", "new_pages"):
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
    passes = _passes(connection)
    for number in range(passes):
        connection.execute(filled(_REBUILD_SOME, passes=str(passes), number=str(number)))
    connection.execute(filled(_REBUILD_MAXIMA))
    return _insert(connection, bases, "all_changes")


def _passes(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of passes needed to compute the maxima for `renewed` if each pass may use half the memory.

    DuckDB can spill tables to disk, but the memory to find the newest row of each title grows with the row count.
    """
    query = "SELECT coalesce(sum(row_count), 0) FROM loads SEMI JOIN renewed USING (project_id)"
    return 1 + one_number(connection, query) * _STATE_BYTES * 2 // memory_limit(connection)


def _insert(connection: duckdb.DuckDBPyConnection, bases: list[LakePart], changes: str) -> int:
    """Insert the complete rows for `deciding` from `changes` or from their source, and return the row count."""
    row_key = ", ".join(name for name in STATE if name != "is_update")
    columns = {"columns": column_list(ARTICLES), "row_key_of_changes": row_key}
    inserted = one_number(connection, filled(_INSERT_CHANGES, changes=changes, **columns))
    if connection.execute("SELECT 1 FROM lookups LIMIT 1").fetchall():
        inserted += one_number(connection, filled(_INSERT_LOOKED_UP, **columns))
    sources = set(connection.execute("SELECT DISTINCT epoch_us(source_at), project_id FROM deciding").fetchall())
    for base in bases:
        assert base.source_at is not None
        if (round(base.source_at.timestamp() * 1_000_000), base.project_id) in sources:
            inserted += one_number(connection, base.insert_deciding(ARTICLES))
    connection.execute("DROP TABLE deciding")
    return inserted


RULE = Rule(
    ARTICLES,
    "page",
    renewed="SELECT DISTINCT project_id FROM internal.bases WHERE applied_at IS NULL",
    renew=_renew,
    advance=_advance,
    also=(LOOKUPS,),
)
