"""Application of pending files to the current states, according to each state's rule.

Files and snapshots are pending until they are applied to the state. A project with a new snapshot is rebuilt, because
the snapshot replaces nearly all rows of the project. For all other projects, only pending files are applied.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from resources.datasets import Dataset, Family, datasets
from resources.tables import Table
from resources.warehouse.database.connect import Build, answer, raise_revision
from resources.warehouse.database.sql import transaction
from resources.warehouse.records import Applied


def applied_to(state: Table, family: Family | None = None) -> tuple[str, ...]:
    """Return the names of the tables that determine a current state, optionally for one dataset family."""
    return tuple(dataset.name for dataset in datasets(family) if dataset.state is state)


@dataclass(frozen=True)
class Rule:
    """Rule that computes a current state from its files.

    Attributes:
        noun: Word for a row in messages.
        renewed: Query for projects with a new snapshot.
        renew: Function that rebuilds the projects in `renewed` and returns the number of rows written.
        advance: Function that applies the files in `pending` to other projects and returns the numbers of rows written
            and removed.
        also: Additional datasets whose files are applied.
    """

    state: Table
    noun: str
    renewed: str
    renew: Callable[[Build], int]
    advance: Callable[[Build], tuple[int, int]]
    also: tuple[Dataset, ...] = ()

    def apply(self, build: Build) -> Applied:
        """Apply all pending files and snapshots, in one transaction."""
        with transaction(build.connection):
            return self.apply_within(build)

    def rebuild(self, build: Build) -> Applied:
        """Rebuild the state from all changes and snapshots, in one transaction, with the same result as `apply`."""
        every = f"SELECT project_id FROM loads UNION SELECT project_id FROM {self.state.name}"  # noqa: S608  declared
        with transaction(build.connection):
            return self.apply_within(build, every)

    def apply_within(self, build: Build, renewed: str | None = None) -> Applied:
        """Apply pending changes, inside a transaction. The `renewed` query returns the projects to rebuild."""
        started, connection = time.perf_counter(), build.connection
        also = tuple(dataset.name for dataset in self.also)
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE pending AS SELECT source_at, batch_hour, project_id, namespace_id FROM loads "
            "WHERE list_contains($tables, table_name) AND applied_at IS NULL",
            {"tables": [*applied_to(self.state, Family.HOURLY), *also]},
        )
        connection.execute(f"CREATE OR REPLACE TEMP TABLE renewed AS {renewed or self.renewed}")
        # lookup files have no hour
        counts = dict(answer(connection, "SELECT batch_hour, count(*) FROM pending GROUP BY ALL ORDER BY ALL"))
        lookup_file_count = counts.pop(None, 0)
        file_count = sum(counts.values())
        projects = tuple(name for (name,) in answer(connection, "SELECT project_id FROM renewed ORDER BY ALL"))
        written = removed = 0
        if file_count or lookup_file_count or projects:
            written = self.renew(build) if projects else 0
            more, removed = self.advance(build)
            written += more
            for ledger in ("loads", "snapshots"):
                connection.execute(
                    f"UPDATE {ledger} SET applied_at = $now "  # noqa: S608  constant words
                    "WHERE applied_at IS NULL AND list_contains($tables, table_name)",
                    {"now": build.now, "tables": [*applied_to(self.state), *also]},
                )
            raise_revision(connection)
        return Applied(
            state=self.state.name,
            noun=self.noun,
            hours=tuple(counts),
            file_count=file_count,
            lookup_file_count=lookup_file_count,
            renewed_projects=projects,
            written_count=written,
            removed_count=removed,
            row_count=count_of(connection, self.state.name),
            seconds=time.perf_counter() - started,
        )


def one_number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the single number that a count, insert or delete returns."""
    return int(connection.execute(query).fetchall()[0][0])


def count_of(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """Return the row count of a table or any other FROM clause."""
    return one_number(connection, f"SELECT count(*) FROM {table}")  # noqa: S608  our own names
