"""Warehouse queries for hourly statistics, coverage and pending data, and SQL queries on the published file."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa

from resources import datasets
from resources.datasets import Dataset
from resources.tables import HOURS, LOADS, PROJECT_STATE, REJECTS, SNAPSHOTS, VISIBILITY_CHANGES
from resources.warehouse.database.connect import Connector, answer, records
from resources.warehouse.database.sql import FORMULAS, column_list, identifier, quoted, statement
from resources.warehouse.read.lake_parts import make_all_changes, window
from resources.warehouse.read.ledger import FaultyFile, faulty_files
from resources.warehouse.records import QueryError, QueryResult, Row

#: DuckDB table functions that only read or generate rows. Scalar functions and the file's macros have no side effects.
_READING = (
    "(duckdb|parquet|pragma|read)_\\w+|generate_series|glob|json_each|json_tree|query_table|range|repeat|repeat_row|"
    "sniff_csv|unnest"
)
_TABLE_FUNCTIONS = (
    "SELECT lower(function_name) FROM duckdb_functions() WHERE database_name = 'system' GROUP BY ALL "
    "HAVING bool_and(function_type IN ('table', 'pragma'))"
)
#: DuckDB types whose values Arrow or Python would change.
_AS_TEXT = re.compile(r"\b(BIGNUM|BIT|INTERVAL|TIME WITH TIME ZONE|TIME_NS|TIMESTAMP_NS|UHUGEINT|VARIANT)\b")
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b|\s*\(\s*(ANALYZE|FORMAT)\b[\w\s,']*\))?", re.IGNORECASE)


def of_projects() -> list[str]:
    """Return the names of all tables with project data, except `articles`."""
    families = (datasets.Family.HOURLY, datasets.Family.SNAPSHOT, datasets.Family.LOOKUP)
    own = [
        table.name
        for one in datasets.datasets()
        if one.family in families and not one.rows_stay_in_lake
        for table in (one.table, *one.native)
    ]
    states = {one.state.name for one in datasets.datasets() if one.state is not None} - {"articles"}
    return [*own, *sorted(states), *(table.name for table in (LOADS, HOURS, REJECTS, SNAPSHOTS, VISIBILITY_CHANGES))]


class Reader:
    """Read-only methods that use the published file if `published` is true, and otherwise the locked build file."""

    data: Path
    _connector: Connector
    _lake_root: Path
    _clock: Callable[[], datetime]
    #: Connections that stay open, for the published file (True) or the build file.
    connections: Mapping[bool, duckdb.DuckDBPyConnection] = MappingProxyType({})

    def published_window(self) -> datetime | None:
        """Return the first hour whose changes are in the published file itself, or None if the file has all changes."""
        with self._reading(published=True) as connection:
            known = window(connection)
        return None if known is None else known.first_hour

    def project_rows(self, project_id: str) -> dict[str, int]:
        """Return a project's row count in each table that contains rows of the project."""
        moved = {one.name for one in datasets.datasets() if one.leaves_warehouse}
        tables = ("articles", *of_projects())
        counts = (
            # the ledger's counts include changes in the lake
            f"SELECT '{table}', CAST(coalesce(sum(row_count - duplicate_count), 0) AS BIGINT) FROM loads "  # noqa: S608
            f"WHERE table_name = '{table}' AND project_id = $1"
            if table in moved
            else f"SELECT '{table}', count(*) FROM {table} WHERE project_id = $1"  # noqa: S608  declared names
            for table in tables
        )
        found = dict(self._build(" UNION ALL ".join(counts), [project_id]))
        return {table: found[table] for table in tables if found[table]}

    def has_rows(self, dataset: Dataset) -> bool:
        """Return True if a dataset's table contains rows."""
        return bool(self._build(f"SELECT EXISTS (FROM {identifier(dataset.name)})")[0][0])

    def dropped_in(self, project_id: str) -> int:
        """Return the number of compacted files that still contain masked rows of a project."""
        query = "SELECT count(DISTINCT lake_path) FROM internal.hidden_rows WHERE file_row IS NULL AND project_id = ?"
        return int(self._build(query, [project_id])[0][0])

    def hours_of_others(self, project_id: str, dataset: Dataset) -> frozenset[datetime]:
        """Return a dataset's hours for which another project has a row in `hours`."""
        query = "SELECT DISTINCT batch_hour FROM hours WHERE table_name = ? AND project_id <> ?"
        return frozenset(hour for (hour,) in self._build(query, [dataset.name, project_id]))

    def pending_hours(self) -> list[datetime]:
        """Return loaded hours that are pending for the current articles or entities, in order."""
        query = "SELECT DISTINCT batch_hour FROM loads WHERE batch_hour IS NOT NULL AND applied_at IS NULL ORDER BY 1"
        return [hour for (hour,) in self._build(query)]

    def pending_snapshots(self) -> list[str]:
        """Return loaded snapshots that are pending for the current articles or entities, in order."""
        query = "SELECT DISTINCT snapshot_id FROM snapshots WHERE applied_at IS NULL ORDER BY 1"
        return [snapshot_id for (snapshot_id,) in self._build(query)]

    def snapshot_scopes(self, dataset: Dataset, *, published: bool = False) -> frozenset[tuple[str, int]]:
        """Return the (project, namespace) pairs with a loaded snapshot of a dataset."""
        query = "SELECT project_id, namespace_id FROM snapshots WHERE table_name = ?"
        with self._reading(published=published) as connection:
            return frozenset(answer(connection, query, [dataset.name]))

    def snapshot_versions(self, dataset: Dataset) -> dict[str, dict[str, datetime]]:
        """Return the loaded versions of each snapshot in a dataset, with their export times."""
        query = (
            "SELECT snapshot_id, snapshot_version, coalesce(exported_at, loaded_at) FROM snapshots WHERE table_name = ?"
        )
        found: dict[str, dict[str, datetime]] = {}
        for name, version, exported_at in self._build(query, [dataset.name]):
            found.setdefault(name, {})[version] = exported_at
        return found

    def loaded_archives(self, dataset: Dataset, since: datetime) -> list[tuple[datetime, str, str]]:
        """Return the hour, identifier and version of each loaded archive of the hours from `since` on."""
        query = (
            "SELECT batch_hour, identifier, version FROM loads WHERE table_name = ? AND batch_hour >= ? ORDER BY ALL"
        )
        return self._build(query, [dataset.name, since])

    def beginnings(self, dataset: Dataset) -> dict[tuple[str, int], datetime]:
        """Return a dataset's first mirrored hour by project and namespace. Requests alone do not begin a mirror."""
        query = (
            f"SELECT project_id, namespace_id, first_hour FROM ({statement('load/beginnings')}) WHERE table_name = ?"  # noqa: S608
        )
        return {(project, namespace): hour for project, namespace, hour in self._build(query, [dataset.name])}

    def lacking_hours(self, dataset: Dataset) -> list[datetime]:
        """Return a dataset's hours that are not final for at least one project and namespace, in order."""
        query = (
            "SELECT DISTINCT batch_hour FROM hours "  # noqa: S608
            f"WHERE table_name = ? AND state NOT IN ({FORMULAS['covered']}) ORDER BY 1"
        )
        return [hour for (hour,) in self._build(query, [dataset.name])]

    def scopes(self, since: datetime, dataset: Dataset, *, published: bool = True) -> list[tuple[Any, ...]]:
        """Return the projects and namespaces that have rows in `hours` for a dataset.

        Each tuple contains the project, the namespace, the first hour, the newest hour with a final state, the number
        of gaps before `since`, and the first gap. The first hour is the mirror's first hour or, if the mirror has not
        begun, the first requested hour.
        """
        query = statement("read/places", beginnings=statement("load/beginnings"))
        with self._reading(published=published) as connection:
            return answer(connection, query, {"since": since, "table": dataset.name})

    def summary(self, hours: Iterable[datetime], *, dataset: Dataset, published: bool = True) -> list[Row]:
        """Return statistics for hours, whether loaded or not, ordered by hour, project and namespace.

        Counts by kind of change include duplicates within a file.
        """
        parameters = {"table": dataset.name, "hours": list(hours)}
        return self._rows(statement("read/summary"), parameters, published=published)

    def coverage(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        dataset: Dataset,
        published: bool = True,
    ) -> list[Row]:
        """Return rows of `hours` with since <= batch_hour < until, ordered by hour, project and namespace."""
        query = (
            f"SELECT {column_list(HOURS)} FROM hours "  # noqa: S608  declared names
            "WHERE table_name = $table AND ($since IS NULL OR batch_hour >= $since) "
            "AND ($until IS NULL OR batch_hour < $until) ORDER BY batch_hour, project_id, namespace_id"
        )
        parameters = {"table": dataset.name, "since": since, "until": until}
        return self._rows(query, parameters, published=published)

    def project_states(self, *, published: bool = True) -> list[Row]:
        """Return the rows of `project_state`, ordered by project and namespace."""
        query = f"SELECT {column_list(PROJECT_STATE)} FROM project_state ORDER BY project_id, namespace_id"  # noqa: S608
        return self._rows(query, {}, published=published)

    def audit(self, hours: Iterable[datetime], dataset: Dataset) -> list[Row]:
        """Recount the rows of loaded hours, and return the counts along with the ledger's counts, in order.

        Each result has the numbers of rows, ledger rows (`expected_count`), rows with a repeated key, and events before
        the hour (`early_count`).
        """
        table = dataset.table
        columns = [identifier(name) for name in table.key if name != "batch_hour"]
        key = {column: column for column in ('"project_id"', '"namespace_id"', *columns)}
        if '"name"' in key:  # in title comparisons, _ equals a space
            key['"name"'] = "replace(name, '_', ' ') AS name"
        asked, rows = list(hours), identifier(table.name)
        values = {
            "table": table.name,
            "hours": asked,
            "first": min(asked, default=None),
            "last": max(asked, default=None),
        }
        with self._reading(published=False) as connection:
            known = window(connection) if dataset.leaves_warehouse else None
            if known is not None and any(hour < known.first_hour for hour in asked):
                # the audit looks for missing rows, so missing files are not an error
                make_all_changes(connection, self._lake_root, partly=True)
                rows = "all_changes"
            text = statement(
                "read/audit",
                table=rows,
                key=", ".join(key.values()),
                has_key=" AND ".join(f"{column} IS NOT NULL" for column in columns) or "false",
                event_at="event_at" if "event_at" in table.schema.names else "NULL",
            )
            return records(connection, text, values)

    def sql(self, query: str, parameters: Sequence[Any] = (), *, is_confined: bool = False) -> QueryResult:
        """Query the published file. `parameters` replace the `?` placeholders in the query.

        A statement without a result returns no columns. Values that Arrow or Python would change (for example
        INTERVAL and TIMESTAMP_NS) are returned as DuckDB's text. If `is_confined` is True, the query can read only the
        published file and the lake, and cannot change anything. Otherwise, DuckDB's permissions are unrestricted.
        Raises NotPublishedError, or QueryError if DuckDB reports an error or the query is refused.
        """
        try:
            query.encode()
        except UnicodeEncodeError:
            raise QueryError(
                "The query is not valid UTF-8. Nothing was done. Check the encoding of the terminal or program."
            ) from None
        with self._asking() as connection:
            try:
                if is_confined:
                    confine(connection, (self._lake_root.resolve(),))
                    query = confined(connection, query)
                relation = connection.sql(query, params=list(parameters) or None)
                return QueryResult(pa.table({}) if relation is None else _in_arrow(relation))
            except duckdb.Error as error:
                hint = ""
                if isinstance(error, duckdb.PermissionException):
                    hint = " Only files of this mirror's lake can be read; --allow-files removes this restriction."
                if isinstance(error, duckdb.IOException | duckdb.PermissionException):
                    hint += " If the data folder was moved, run `wme relocate` to update the lake paths in this file."
                raise QueryError(f"DuckDB cannot answer this query. {error}{hint}") from error

    def faulty_lake_files(self, *, published: bool = False) -> list[FaultyFile]:
        """Return the missing or damaged lake files, with the loads whose rows these files contain."""
        with self._reading(published=published) as connection:
            return faulty_files(connection, self._lake_root)

    @contextmanager
    def opened(self, *, published: bool) -> Iterator[Reader]:
        """Open the published file or the build file once, for several queries that all read the same content."""
        with self._reading(published=published) as connection:
            reader = copy.copy(self)
            reader.connections = {published: connection}
            yield reader

    def connect_published(self) -> duckdb.DuckDBPyConnection:
        """Return a read-only, lock-free connection to the published file. The caller closes the connection."""
        return self._connector.connect_published()

    def _asking(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Open the published file for a user's query, which can change settings."""
        return nullcontext(self.connections[True]) if True in self.connections else self._connector.connect_published()

    def _reading(self, *, published: bool) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        if published in self.connections:
            return nullcontext(self.connections[published])
        return self._connector.published() if published else self._connector.build("read the warehouse")

    def _build(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading(published=False) as connection:
            return answer(connection, query, parameters)

    def _rows(self, query: str, parameters: Mapping[str, Any], *, published: bool) -> list[Row]:
        with self._reading(published=published) as connection:
            return records(connection, query, parameters)


def confine(connection: duckdb.DuckDBPyConnection, folders: Iterable[Path]) -> None:
    """Restrict DuckDB to attached files and files under these folders. Large queries can still spill to disk."""
    paths = ", ".join(quoted(str(folder)) for folder in folders)
    connection.execute(f"SET allowed_directories = [{paths}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _in_arrow(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the rows of a query. Columns that contain types in `_AS_TEXT` become text."""
    are_text = [_AS_TEXT.search(str(one)) is not None for one in relation.types]
    if any(are_text):
        relation = relation.project(
            ", ".join(
                f"CAST(#{number} AS VARCHAR) AS {identifier(name)}" if is_text else f"#{number}"
                for number, (name, is_text) in enumerate(zip(relation.columns, are_text, strict=True), 1)
            )
        )
    return relation.to_arrow_table()


def confined(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """Return the query in read-only form.

    Raises QueryError if the string is not exactly one query, and duckdb.Error if it is not SQL. DuckDB's settings do
    not distinguish reading from writing. In DuckDB 2, a `SELECT` can write by using `WITH` or table functions that run
    SQL from a string. A query is therefore run as a subquery, in which DuckDB itself refuses all writes. Only table
    functions that read data are accepted.
    """
    statements = duckdb.extract_statements(query)
    text = statements[0].query.strip("; \t\r\n") if len(statements) == 1 else ""
    explain = found.group() if (found := _EXPLAIN.match(text)) else ""
    text = text.removeprefix(explain)
    [(serialised,)] = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [text]).fetchall()
    tree = json.loads(serialised)
    # DuckDB can serialise only queries
    if tree["error"] or len(statements) != 1:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise QueryError(
            "Only a single query (SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN) is allowed, and this is "
            f"{kinds}. Nothing was done. PIVOT needs explicit values: PIVOT … ON column IN (…). `wme sql "
            "--allow-files` runs all statements."
        )
    names = {name for name in _functions(tree) if not re.fullmatch(_READING, name)}
    of_tables = {name for (name,) in connection.execute(_TABLE_FUNCTIONS).fetchall()} if names else set()
    if refused := sorted(names & of_tables):
        raise QueryError(
            f"{refused[0]}() is not a read-only table function, so the query was refused. Nothing was done. `wme sql "
            "--allow-files` runs it."
        )
    return f"{explain} FROM ({text}\n)".lstrip()


def _functions(node: Any) -> Iterator[str]:
    """Yield the lower-case names of all functions in a serialised query."""
    if isinstance(node, dict):
        if isinstance(name := node.get("function_name"), str):
            yield name.lower()
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _functions(one)
