"""Mirrors with months of history, made of few real files: what the benchmark of growth measures, and others may start from.

Belongs here: the rows, files and ledger of many hours, as the package itself would have made them one by one. Does not belong
here: measuring.

One archive is made and converted. Each change of an hour is one of its pages under another title and number, with a revision,
an event and moments of its own; its bodies begin with the revision that they are of. The files are written by the package's
own writer, and stand under the names and with the facts that a conversion gives them. Rows, ledger and coverage go into the build file a day
at a time, because loading each hour by itself would take an hour of its own: a test compares the outcome with that of loads.
Everything follows from the hour and the project's number, so the same hour gives the same files.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workload import HOUR
from resources import data_folder
from resources.datasets import ARTICLE_CHANGES
from resources.datasets.paths import hour_folder
from resources.lake import Archive, Layout
from resources.lake.conversion import CONVERTER_VERSION, METADATA_KEY, digest_of
from resources.lake.converter import convert
from resources.lake.parquet.writer import ParquetFile, encode
from resources.sandbox import Settings
from resources.sandbox.store.archived_world import ArchivedWorld
from resources.tables import LOADS, REJECTED_LINES, version_of
from resources.warehouse import LakeFile, Warehouse
from resources.warehouse.database.connect import Connector, raise_revision
from resources.warehouse.database.formulas import FORMULAS
from resources.warehouse.database.sql import column_list, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from resources.lake.parquet.footer import Group

#: Changes of an hour and project on average, and how much more the larger projects have: the first has some 90 of 40 projects' 640.
ROWS_PER_FILE = 16
_SKEW = 0.7
#: Pages that a project has for each change of an hour: after a week nearly all of them have changed, so that longer histories
#: are of the same pages.
_PAGES_PER_CHANGE = 60
#: Real pages that all others are made of, and what a page has of wikitext and HTML together: 5 kB.
TEMPLATES = 2_000
_BODY_BYTES = 4_000
_HOUR = timedelta(hours=1)
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
#: What a made-up project's hour takes of the archive that it never had.
_ZIPPED = 5
_RECORD_BYTES = 2_500
_SERVICE = "sandbox of the benchmarks"
#: Fewer files are made without helpers, which take seconds to start.
_ALONE = 500
#: What is new in the rows of some hours; all else is that of the page of the template at `template_place`. Of a hundred changes two are
#: deletes and two of visibility; in every twentieth file the first record stands twice.
_NEW = """
  WITH changes AS (
    SELECT *, file_row % row_count AS place, hash(number, hour, place) AS chance, chance % (row_count * {pages}) AS page
    FROM (
      SELECT project_id, number, row_count, hour, unnest(range(row_count + CAST(hash(number, hour) % 20 = 0 AS BIGINT))) AS file_row
      FROM projects, range(CAST($first AS BIGINT), CAST($last AS BIGINT)) AS hours(hour)
    )
  ),
  titled AS (
    SELECT *, concat(name, ' ', page) AS title FROM changes JOIN template ON page % (SELECT count(*) FROM template) = template_place
  )
  SELECT
    template_place,
    file_row,
    file_row > place AS is_copy,
    TIMESTAMPTZ '{epoch}' + to_hours(CAST(hour AS INTEGER)) AS batch_hour,
    project_id,
    CAST(page * 7 + 1 AS BIGINT) AS article_id,
    CAST(1000000000 + hour * 1000 + place AS BIGINT) AS version_id,
    title AS name,
    CASE chance // 7 % 50 WHEN 0 THEN 'delete' WHEN 1 THEN 'visibility-change' ELSE 'update' END AS change_type,
    batch_hour + to_milliseconds(CAST(place * 3600000 // row_count AS BIGINT)) AS event_at,
    CAST(CAST(md5(concat(number, ' ', hour, ' ', place)) AS UUID) AS VARCHAR) AS event_id,
    event_at - INTERVAL 1 SECOND AS event_created_at,
    event_at AS event_published_at,
    event_at - INTERVAL 2 SECOND AS modified_at,
    version_id - 1 AS previous_version_id,
    concat('https://', project_id, '.example.org') AS project_url,
    concat(project_url, '/wiki/', replace(title, ' ', '_')) AS url
  FROM titled
  ORDER BY batch_hour, number, file_row
"""
_BESIDES = ("template_place", "file_row", "is_copy")


@dataclass(frozen=True)
class Project:
    """A project of the mirror: its number, from 0, and the changes that each of its hours has."""

    number: int
    row_count: int

    @property
    def project_id(self) -> str:
        """Its name, which no real project has."""
        return f"p{self.number:02}wiki"

    @property
    def identifier(self) -> str:
        """The name of its archives."""
        return f"{self.project_id}_namespace_0"


def projects(count: int, rows: int = ROWS_PER_FILE) -> tuple[Project, ...]:
    """So many projects, the largest first, with `rows` changes an hour on average."""
    shares = [(number + 1) ** -_SKEW for number in range(count)]
    return tuple(
        Project(number, max(1, round(count * rows * share / sum(shares)))) for number, share in enumerate(shares)
    )


@dataclass(frozen=True)
class Stock:
    """The files of many hours, and their rows, that mirrors of any length are put together from.

    `first` and `last` are the first hour and the one after the last.
    """

    folder: Path
    projects: tuple[Project, ...]
    first: datetime
    last: datetime

    @classmethod
    def make(
        cls,
        folder: Path,
        chosen: Sequence[Project],
        last: datetime,
        hours: int,
        say: Callable[[str], None],
        templates: int = TEMPLATES,
    ) -> Stock:
        """Make the files of the `hours` hours before `last`, on all cores, of about so many real pages (`templates`)."""
        stock = cls(folder, tuple(chosen), last - hours * _HOUR, last)
        say("an archive of real pages")
        template = _template(folder / "template", templates)
        days = list(_days(stock.first, stock.last))
        if hours * len(chosen) < _ALONE:
            for whole in days:
                _make_day(template, stock, *whole)
            return stock
        # forks would share the locks of this process's threads
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(len(days), len(os.sched_getaffinity(0))), mp_context=context) as pool:
            made = [pool.submit(_make_day, template, stock, *day) for day in days]
            for number, day in enumerate(made, 1):
                day.result()
                say(f"{number} of {len(days)} days of lake files")
        return stock

    @property
    def lake(self) -> Path:
        """Folder of the lake files."""
        return Layout(self.folder).lake / ARTICLE_CHANGES.name

    def kept(self, first: datetime, what: str) -> Path:
        """Where the `rows` or `loads` of the day that begins with an hour are kept."""
        return self.folder / what / f"{first:%Y-%m-%dT%H}.parquet"

    def mirror(self, data: Path, last: datetime, hours: int, say: Callable[[str], None]) -> Warehouse:
        """A data folder that holds the `hours` hours before `last`, loaded, applied and published.

        Its lake files are the stock's own (hard links).
        """
        first = last - hours * _HOUR
        data.mkdir(parents=True)
        data_folder.claim(data, _SERVICE)
        warehouse = Warehouse(data)
        for start, end in _days(self.first, self.last):
            begin, stop = max(start, first), min(end, last)
            if begin < stop:
                say(f"{begin:%Y-%m-%d} of {first:%Y-%m-%d} to {last:%Y-%m-%d}")
                self._link(data, begin, stop)
                self._load(data, start, begin, stop)
                # as each run does after its publication: else 90 days would lie in 90 row groups of a few thousand rows, as in no mirror
                warehouse.merge_row_groups()
        say("articles")
        warehouse.apply_changes()
        say("publication")
        warehouse.publish({"service": _SERVICE})
        return warehouse

    def hour(self, data: Path, hour: datetime) -> list[LakeFile]:
        """The files of one hour, put into a data folder, to be loaded."""
        self._link(data, hour, hour + _HOUR)
        start = next(start for start, end in _days(self.first, self.last) if start <= hour < end)
        root, names = Layout(data).lake, LakeFile.__dataclass_fields__
        return [
            LakeFile(
                path=root / row["lake_path"], rejects_path=None, **{name: row[name] for name in names if name in row}
            )
            for row in pq.read_table(self.kept(start, "loads")).to_pylist()
            if row["batch_hour"] == hour
        ]

    def _link(self, data: Path, first: datetime, last: datetime) -> None:
        target = Layout(data).lake / ARTICLE_CHANGES.name
        for number in range((last - first) // _HOUR):
            place = hour_folder(first + number * _HOUR)
            (target / place).mkdir(parents=True)
            for path in (self.lake / place).iterdir():
                os.link(path, target / place / path.name)

    def _load(self, data: Path, start: datetime, first: datetime, last: datetime) -> None:
        """Rows, ledger and coverage of the hours from `first` to `last` of the day that begins with `start`."""
        between = "batch_hour >= $first AND batch_hour < $last"
        key = {"first": first, "last": last}
        rows, loads = (f"read_parquet('{self.kept(start, what)}')" for what in ("rows", "loads"))
        narrow = column_list(ARTICLE_CHANGES.table.narrow)
        event_key = FORMULAS["event_key"]
        for name, formula in FORMULAS.items():
            event_key = event_key.replace(f"{{{name}}}", formula)
        with _connector(data).build("load many hours") as connection, transaction(connection):
            connection.execute(
                f"INSERT INTO article_changes BY NAME SELECT {narrow}, {event_key} AS event_key, file_row FROM {rows} "
                f"WHERE NOT is_copy AND {between}",
                key,
            )
            connection.execute(
                "INSERT INTO internal.shadowed SELECT batch_hour, project_id, namespace_id, file_row "
                f"FROM {rows} WHERE is_copy AND {between}",
                key,
            )
            connection.execute(f"INSERT INTO loads BY NAME SELECT * FROM {loads} WHERE {between}", key)
            connection.execute(
                "INSERT INTO hours BY NAME SELECT table_name, batch_hour, project_id, namespace_id, 'loaded' AS state, "
                "row_count - duplicate_count AS row_count, reject_count, 1 AS load_count, loaded_at AS checked_at "
                f"FROM {loads} WHERE {between}",
                key,
            )
            raise_revision(connection)


def _connector(data: Path) -> Connector:
    return Connector(
        build_path=data / "warehouse" / "build.duckdb",
        published_path=data / "warehouse.duckdb",
        lock_path=data / "state" / "warehouse.lock",
        storage_version=None,
        lock_timeout=60,
        memory_limit="2GB",
    )


def _days(first: datetime, last: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The days from one hour to another, whole but for the first and the last, each as its first hour and the one after its last."""
    while first < last:
        end = min(last, first.replace(hour=0) + timedelta(days=1))
        yield first, end
        first = end


def _template(folder: Path, count: int) -> Path:
    """A lake file of real pages: an archive of the sandbox, converted."""
    folder.mkdir(parents=True)
    settings = Settings(
        state=folder / "world",
        projects=("enwiki",),
        namespaces=(0,),
        changes_per_hour=count,
        body_bytes=_BODY_BYTES,
        now=HOUR + 3 * _HOUR,
    )
    (batch,) = ArchivedWorld(settings).batches(HOUR)
    archive = Archive(batch.path, batch.record["identifier"], batch.version, HOUR, "enwiki", 0)
    made = convert(archive, Layout(folder))
    path = folder / "template.parquet"
    pages = pq.read_table(made.path, partitioning=None)
    pq.write_table(pages.filter(pc.and_(pc.equal(pages["change_type"], "update"), pc.is_valid(pages["html"]))), path)
    return path


@cache
def _read(template: Path) -> tuple[pa.Table, duckdb.DuckDBPyConnection]:
    """The template, and a connection that knows its titles: once for each process."""
    pages = pq.read_table(template, partitioning=None).cast(ARTICLE_CHANGES.table.schema)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET threads = 1")
    titles = pages.select(["name"]).append_column("template_place", pa.array(range(len(pages)), pa.int64()))
    connection.register("template", titles)
    return pages, connection


def _make_day(template: Path, stock: Stock, first: datetime, last: datetime) -> None:
    """Write the files of a day, and beside them its narrow rows and its rows of the ledger."""
    pages, connection = _read(template)
    known = [{"project_id": one.project_id, "number": one.number, "row_count": one.row_count} for one in stock.projects]
    connection.register("projects", pa.Table.from_pylist(known))
    query = _NEW.format(pages=_PAGES_PER_CHANGE, epoch=_EPOCH.isoformat(sep=" "))
    hours = {"first": (first - _EPOCH) // _HOUR, "last": (last - _EPOCH) // _HOUR}
    new = connection.sql(query, params=hours).to_arrow_table()
    rows = _filled(pages.take(new["template_place"]), new.drop_columns(list(_BESIDES)))
    loads, done = [], 0
    begins = [number for number, place in enumerate(new["file_row"].to_pylist()) if place == 0]
    files = (
        (first + number * _HOUR, project) for number in range((last - first) // _HOUR) for project in stock.projects
    )
    for (hour, project), end in zip(files, [*begins[1:], len(new)], strict=True):
        loads.append(_write(Layout(stock.folder), project, hour, rows.slice(done, end - done), last))
        done = end
    narrow = rows.select(ARTICLE_CHANGES.table.narrow.schema.names)
    for column in ("file_row", "is_copy"):
        narrow = narrow.append_column(column, new[column])
    for what, table in (("rows", narrow), ("loads", pa.Table.from_pylist(loads, schema=LOADS.schema))):
        stock.kept(first, what).parent.mkdir(exist_ok=True)
        pq.write_table(table, stock.kept(first, what))


def _filled(rows: pa.Table, new: pa.Table) -> pa.Table:
    """Rows of the template with what is new in them. A body begins with its revision; a deleted page has none."""
    schema = rows.schema
    for name in new.schema.names:
        place = schema.get_field_index(name)
        rows = rows.set_column(place, schema.field(place), new[name].cast(schema.field(place).type))
    mark = pc.binary_join_element_wise("<!-- ", new["version_id"].cast(pa.string()), " -->", "")
    is_there = pc.not_equal(new["change_type"], "delete")
    for name in sorted(ARTICLE_CHANGES.table.bodies):
        body = pc.if_else(is_there, pc.binary_join_element_wise(mark, rows[name], ""), None)
        rows = rows.set_column(schema.get_field_index(name), schema.field(name), body)
    return rows


class _Quick(ParquetFile):
    """A lake file that need not outlast the machine: 100,000 of them are written."""

    def land(self) -> None:
        """Give the file its final name."""
        self.path.replace(self.target)


def _write(layout: Layout, project: Project, hour: datetime, rows: pa.Table, loaded_at: datetime) -> dict[str, Any]:
    """Write the file of an hour and project as a conversion would; returns its row of the ledger."""
    version = hashlib.md5(f"{project.identifier} {hour}".encode(), usedforsecurity=False).hexdigest()
    path = layout.batch_archive(ARTICLE_CHANGES, hour, project.identifier, version)
    archive = Archive(path, project.identifier, version, hour, project.project_id, 0)
    digest = digest_of(archive)
    target = archive.lake_file(layout, ARTICLE_CHANGES.name, digest)
    kinds = rows["change_type"].to_pylist()
    ndjson_bytes = rows["html"].nbytes + rows["wikitext"].nbytes + len(rows) * _RECORD_BYTES
    told = {
        "identifier": project.identifier,
        "version": version,
        "batch_hour": hour.isoformat(),
        "project_id": project.project_id,
        "namespace_id": 0,
        "schema_version": version_of(ARTICLE_CHANGES.table, REJECTED_LINES),
        "converter_version": CONVERTER_VERSION,
        "bodies": sorted(ARTICLE_CHANGES.table.bodies),
        "digest": digest,
        "archive_bytes": ndjson_bytes // _ZIPPED,
        "row_count": len(rows),
        "reject_count": 0,
        "ndjson_bytes": ndjson_bytes,
        "has_long_lines": False,
        "remarks": [],
        "update_count": kinds.count("update"),
        "delete_count": kinds.count("delete"),
        "visibility_change_count": kinds.count("visibility-change"),
        "drift": [],
    }
    with _Quick(target, ARTICLE_CHANGES.table) as file:
        file.add(_group(rows))
        file.finish({METADATA_KEY: json.dumps(told)})
    return {name: told[name] for name in LOADS.schema.names if name in told} | {
        "table_name": ARTICLE_CHANGES.name,
        "source_at": hour,
        "batch_hour": hour,
        "lake_path": target.relative_to(layout.lake).as_posix(),
        "duplicate_count": len(rows) - project.row_count,
        "lake_bytes": target.stat().st_size,
        "loaded_at": loaded_at,
    }


def _group(rows: pa.Table) -> Group:
    return encode(rows.combine_chunks().to_batches()[0], ARTICLE_CHANGES.table)


def clone(data: Path, target: Path) -> None:
    """A copy of a data folder that may be changed: files of the lake are hard links, since none is ever written twice."""
    lake = Layout(data).lake
    shutil.copytree(data, target, copy_function=lambda one, other: _take(one, other, str(lake)))


def _take(source: str, target: str, lake: str) -> None:
    if source.startswith(lake):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
