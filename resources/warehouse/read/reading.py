"""Reading back: figures of hours, coverage, and any query on the published file.

Belongs here: queries that answer the command line and the assets. Does not belong here: writing, layout of output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from resources import datasets
from resources.tables import HOURS, LOADS, PROJECT_STATE, REJECTS, SNAPSHOTS
from resources.warehouse.errors import QueryError
from resources.warehouse.records import CoverageRow, ProjectState, QueryResult, SummaryRow
from resources.warehouse.schema import column_list, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from resources.datasets import Dataset


def of_projects() -> list[str]:
    """The tables that hold what a project is made of, `articles` aside."""
    families = (datasets.Family.HOURLY, datasets.Family.SNAPSHOT)
    own = [one.name for one in datasets.datasets() if one.family in families and one is not datasets.SNAPSHOT_ARTICLES]
    return [*own, *(table.name for table in (LOADS, HOURS, REJECTS, SNAPSHOTS))]


def query(connection: duckdb.DuckDBPyConnection, text: str, parameters: Sequence[Any] = ()) -> QueryResult:
    """Answer of a query; a statement without an answer gives a table without columns.

    Raises:
        QueryError: DuckDB cannot answer it; the message is DuckDB's own.
    """
    try:
        relation = connection.sql(text, params=list(parameters)) if parameters else connection.sql(text)
        return QueryResult(pa.table({}) if relation is None else relation.to_arrow_table())
    except duckdb.Error as error:
        hint = ""
        if isinstance(error, duckdb.IOException):
            hint = " If the data folder was moved, `wme relocate` makes this file find the lake again."
        raise QueryError(f"DuckDB cannot answer this query. {error}{hint}") from error


def summary(connection: duckdb.DuckDBPyConnection, dataset: Dataset, hours: Iterable[datetime]) -> list[SummaryRow]:
    """Figures per hour, project and namespace, of loaded and of unloaded ones, in this order."""
    found = connection.sql(statement("summary"), params={"table": dataset.name, "hours": list(hours)}).to_arrow_table()
    return [SummaryRow(**row) for row in found.to_pylist()]


def coverage(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, since: datetime | None, until: datetime | None
) -> list[CoverageRow]:
    """Rows of `hours` of a dataset with since <= batch_hour < until, by hour, project and namespace."""
    found = connection.sql(
        f"SELECT {column_list(HOURS)} FROM hours "  # noqa: S608  declared names
        "WHERE table_name = $table AND ($since IS NULL OR batch_hour >= $since) AND ($until IS NULL OR batch_hour < $until) "
        "ORDER BY batch_hour, project_id, namespace_id",
        params={"table": dataset.name, "since": since, "until": until},
    ).to_arrow_table()
    return [CoverageRow(**row) for row in found.to_pylist()]


def project_rows(connection: duckdb.DuckDBPyConnection, project_id: str) -> dict[str, int]:
    """Rows of a project by table, of those tables that have some."""
    counts = {
        table: connection.execute(f"SELECT count(*) FROM {table} WHERE project_id = ?", [project_id]).fetchall()[0][0]  # noqa: S608
        for table in ("articles", *of_projects())
    }
    return {table: int(count) for table, count in counts.items() if count}


def hours_of_others(connection: duckdb.DuckDBPyConnection, dataset: Dataset, project_id: str) -> frozenset[datetime]:
    """Hours of a dataset that have a row of another project."""
    found = connection.sql(
        "SELECT DISTINCT batch_hour FROM hours WHERE table_name = $table AND project_id <> $project",
        params={"table": dataset.name, "project": project_id},
    ).to_arrow_table()
    return frozenset(found.column(0).to_pylist())


def project_states(connection: duckdb.DuckDBPyConnection) -> list[ProjectState]:
    """Rows of `project_state`, by project and namespace."""
    found = connection.sql(
        f"SELECT {column_list(PROJECT_STATE)} FROM project_state ORDER BY project_id, namespace_id"  # noqa: S608
    ).to_arrow_table()
    return [ProjectState(**row) for row in found.to_pylist()]


def digests(connection: duckdb.DuckDBPyConnection, dataset: Dataset, hour: datetime) -> dict[tuple[str, int], str]:
    """Digest of the loaded file of each project and namespace of an hour, from the ledger."""
    found = connection.execute(
        "SELECT project_id, namespace_id, digest FROM loads WHERE table_name = ? AND batch_hour = ?",
        [dataset.name, hour],
    ).fetchall()
    return {(project, namespace): digest for project, namespace, digest in found}


def pending_snapshots(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Snapshots of the ledger that `articles` has not taken in, in order."""
    found = connection.execute(
        "SELECT DISTINCT snapshot_id FROM snapshots WHERE table_name = 'snapshot_articles' AND applied_at IS NULL ORDER BY 1"
    ).fetchall()
    return [identifier for (identifier,) in found]


def pending_hours(connection: duckdb.DuckDBPyConnection) -> list[datetime]:
    """Hours of the ledger that `articles` has not taken in, in order."""
    found = connection.sql(
        "SELECT DISTINCT batch_hour FROM loads WHERE table_name = 'article_changes' AND applied_at IS NULL ORDER BY 1"
    ).to_arrow_table()
    hours: list[datetime] = found.column(0).to_pylist()
    return hours
