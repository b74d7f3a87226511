"""The truth of the sandbox beside what a mirror holds: rows of `articles` as the world's own page table has them.

The truth is read from the world's pages, never folded from records. Expected rows are made here from the wire form by
plain Python, so that nothing of the converter is trusted. Compared: every column of `articles` and a digest of both
bodies, in both directions.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from resources.sandbox.world.pages import Event
from resources.sandbox.world.world import World
from resources.tables import ARTICLE_CHANGES, ARTICLES, TIMESTAMP
from resources.warehouse import Warehouse

Row = dict[str, Any]
Rows = dict[tuple[str, int], Row]

HOUR = timedelta(hours=1)


def moment(text: str) -> datetime:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction:0<6.6}+00:00")


@cache
def plain(kind: pa.DataType) -> Callable[[Any], Any]:
    """Make a value of JSON or of the warehouse plain, by its column's type. Absent, null and empty are equal."""
    read: Callable[[Any], Any]
    if kind == TIMESTAMP:
        read = lambda value: value if isinstance(value, datetime) else moment(value)  # noqa: E731
    elif pa.types.is_list(kind):
        item = plain(kind.value_type)
        read = lambda value: [item(one) for one in value]  # noqa: E731
    elif pa.types.is_struct(kind):
        fields = [(field.name, plain(field.type)) for field in kind]
        read = lambda value: {name: of(value.get(name)) for name, of in fields}  # noqa: E731
    elif pa.types.is_floating(kind):
        read = float
    else:
        return lambda value: None if value == "" else value
    return lambda value: None if value in (None, "", [], {}) else read(value)


#: Name, way through the record and reader of each column that the record tells.
COLUMNS = [(c.name, None if c.path is None else c.path.split("."), plain(c.type)) for c in ARTICLES]
#: Columns of `article_changes`; what `extra` holds is not compared.
CHANGES = {c.name: plain(c.type) for c in ARTICLE_CHANGES if not c.body and c.name != "extra"}


def dig(record: Any, path: Sequence[str]) -> Any:
    for part in path:
        if not isinstance(record, dict) or part not in record:
            return None
        record = record[part]
    return record


def digest(html: str | None, wikitext: str | None) -> str:
    return hashlib.sha256(f"{html}\0{wikitext}".encode()).hexdigest()


def expected_row(record: Any) -> Row:
    """The row of `articles` that a record of the wire must become; `source_at` is not the record's to tell."""
    row = {name: of(dig(record, path)) for name, path, of in COLUMNS if path is not None}
    row["namespace_id"] = record["namespace"]["identifier"]
    row["change_type"] = record["event"]["type"]
    row["event_at"] = moment(record["event"].get("date_published") or record["event"]["date_created"])
    row["extra"] = None
    row["source_at"] = None
    body = record.get("article_body", {})  # a deletion has none
    row["bodies"] = digest(body.get("html"), body.get("wikitext"))
    return row


def found_row(row: Row) -> Row:
    """A row of the warehouse in the same plain form; flags and counts that are absent in the record may be null."""
    values = {name: of(row[name]) for name, _, of in COLUMNS}
    values["namespace_id"] = row["namespace_id"]
    values["bodies"] = digest(row["html"], row["wikitext"])
    return values


class Truth:
    """The pages of a world's projects and namespaces as rows. A page that stands as it did is written once."""

    def __init__(self, world: World, projects: Sequence[str], namespaces: Sequence[int]) -> None:
        self._world = world
        self._projects = projects
        self._namespaces = namespaces
        self._written: dict[Event, Row] = {}

    def _row(self, event: Event) -> Row:
        if event not in self._written:
            self._written[event] = expected_row(self._world.record(event))
        return self._written[event]

    def at(self, moment_of: Callable[[str], datetime], since: datetime | None = None) -> Rows:
        """Rows by (project, page) of the pages before a moment of each project, or with an event `since` then."""
        rows: Rows = {}
        for project in self._projects:
            for namespace in self._namespaces:
                for event in self._world.pages_at(project, namespace, moment_of(project), since):
                    row = self._row(event)
                    rows[project, row["article_id"]] = row
        return rows

    def of_hours(self, hours: Sequence[datetime]) -> Rows:
        """Rows of the pages with an event in the hours that are live when the last hour's export begins.

        Files overlap: the first of the hours whose export began after the event holds it, and is the row's `source_at`.
        """
        started = {(p, hour): self._world.export_started_at(p, hour) for p in self._projects for hour in hours}
        found = self.at(lambda project: started[project, hours[-1]], since=hours[0])
        return {
            (project, page): row
            | {"source_at": next(hour for hour in hours if row["event_at"] < started[project, hour])}
            for (project, page), row in found.items()
        }

    def after(self, hour: datetime) -> Rows:
        """Rows of the pages that live after the files of an hour."""
        return self.at(lambda project: self._world.export_started_at(project, hour))

    def changes(self, hours: Sequence[datetime]) -> Iterator[Row]:
        """The rows of `article_changes` of the hours, in every column, each with a digest of its bodies."""
        for hour in hours:
            for project in self._projects:
                for event in self._world.hour_events(project, hour):
                    if event.title.namespace in self._namespaces:
                        yield expected_row(self._world.record(event)) | {"batch_hour": hour}

    def assert_hard(self, hours: Sequence[datetime]) -> None:
        """See that the hours hold at least five of each special kind; without them the comparison would show little."""
        for project in self._projects:
            kinds = Counter(event.kind for event in self._world.events(project, hours[0], hours[-1] + HOUR))
            rare = {kind: count for kind, count in kinds.items() if count < 5}
            told = f"{project}: {json.dumps(kinds)}"
            assert not rare, told
            assert len(kinds) >= 10, told
            assert {"delete", "move"} & kinds.keys(), told


class Published(AbstractContextManager["Published"]):
    """What analysts find in the published file. Rows that are the same at several moments are read once."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._connection = warehouse.connect_published()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("CREATE TEMP TABLE known (mark VARCHAR PRIMARY KEY)")
        self._read: dict[str, Row] = {}

    def __exit__(self, *_failure: object) -> None:
        self._connection.close()

    def rows(self, source: str, *parameters: Any, source_at: bool = False) -> Rows:
        """Rows of a table or macro by (project, page), with a digest of their bodies, and `source_at` if asked."""
        run = self._connection.execute
        run(
            f"CREATE OR REPLACE TEMP TABLE asked AS SELECT *, md5(one::VARCHAR) AS mark FROM {source} AS one",
            list(parameters) or None,
        )
        unread = self._connection.sql(
            "SELECT a.*, coalesce(b.html, live.html) AS html, coalesce(b.wikitext, live.wikitext) AS wikitext "
            "FROM (FROM asked ANTI JOIN known USING (mark)) a "
            "LEFT JOIN article_bodies b USING (project_id, article_id, version_id, source_at) "
            "LEFT JOIN (FROM live_changes WHERE change_type = 'update') AS live "
            "ON a.event_id = live.event_id AND a.name = live.name AND a.source_at = live.batch_hour"
        ).to_arrow_table()
        marks = unread["mark"].to_pylist()
        assert len(set(marks)) == len(marks), "a page stands twice, or its bodies do"
        self._read |= {row["mark"]: found_row(row) for row in unread.to_pylist()}
        run("INSERT INTO known FROM (SELECT mark FROM asked) EXCEPT FROM known")
        asked = run("SELECT project_id, article_id, mark FROM asked").fetchall()
        dropped: Row = {} if source_at else {"source_at": None}
        found = {(project, page): self._read[mark] | dropped for project, page, mark in asked}
        assert len(found) == len(asked), "a page stands twice"
        return found

    def assert_changes(self, expected: Iterable[Row]) -> None:
        """Assert that `article_changes` has these rows alone, with a body of one of them for each revision and hour."""
        page = ("project_id", "article_id", "version_id", "batch_hour")
        truth: dict[tuple[Any, ...], Row] = {}
        bodies: dict[tuple[Any, ...], set[str]] = {}
        for row in expected:
            key = tuple(row[name] for name in ARTICLE_CHANGES.key)
            assert key not in truth
            truth[key] = {name: row[name] for name in CHANGES}
            bodies.setdefault(tuple(row[name] for name in page), set()).add(row["bodies"])
        rows = self._connection.sql("FROM article_changes").to_arrow_table().to_pylist()
        found = {tuple(row[name] for name in ARTICLE_CHANGES.key): row for row in rows}
        assert len(found) == len(rows), "an event appears twice"
        assert_same(
            {key: {name: of(row[name]) for name, of in CHANGES.items()} for key, row in found.items()}, truth, "changes"
        )
        run = self._connection.sql("SELECT * FROM article_bodies WHERE batch_hour IS NOT NULL")
        texts = [(tuple(row[name] for name in page), row) for row in run.to_arrow_table().to_pylist()]
        assert len(dict(texts)) == len(texts), "the bodies of a page, revision and hour are there twice"
        assert dict(texts).keys() == bodies.keys()
        wrong = [key for key, row in texts if digest(row["html"], row["wikitext"]) not in bodies[key]]
        assert wrong == []


def assert_same(found: dict[Any, Row], truth: dict[Any, Row], what: str = "at the end") -> None:
    """See that both hold the same rows with the same values; the first that differs is told column by column."""
    assert len(truth) > 50
    wrong = [key for key in truth.keys() | found.keys() if found.get(key) != truth.get(key)]
    if wrong:
        key = min(wrong)
        have, want = found.get(key) or {}, truth.get(key) or {}
        columns = {
            name: (have.get(name), want.get(name))
            for name in have.keys() | want.keys()
            if have.get(name) != want.get(name)
        }
        told = f"{what}, {len(wrong)} of {len(truth)} rows differ, first {key}: (found, truth) {columns}"
        pytest.fail(told[:3000])


def assert_rebuilt_alike(warehouse: Warehouse, table: str = "articles") -> None:
    """See that a full rebuild gives the identical table."""

    def rows() -> list[tuple[Any, ...]]:
        with warehouse._connector.build("compare") as connection:
            return connection.execute(f"SELECT md5({table}::VARCHAR) AS one FROM {table} ORDER BY one").fetchall()

    before = rows()
    {"articles": warehouse.rebuild_articles, "entities": warehouse.rebuild_entities}[table]()
    assert rows() == before, "a rebuild gives another table"
