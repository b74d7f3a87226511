"""Ways to turn such an archive into Parquet with the columns of `article_changes`, each as its users would write it.

Belongs here: one function per contender. Does not belong here: choosing settings that make a peer look bad: each gets all
cores, and the options its documentation recommends.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from benchmarks.workload import HOUR
from resources.lake import Archive, Layout, convert, parsers_for
from resources.lake.records import RecordReader
from resources.lake.shape import shape_of
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.workload import Workload

_LONGEST_LINE = 64 << 20
_MOMENTS = ("event_published_at", "event_created_at", "modified_at")


@dataclass(frozen=True)
class Job:
    """What a contender is given: the workload, an empty folder for its files, and the settings of the run."""

    workload: Workload
    folder: Path
    cores: int
    level: int


@dataclass(frozen=True)
class Contender:
    """One way to do the work, and what it starts from: `tar.gz`, or `ndjson` that somebody else has unpacked before."""

    name: str
    starts_from: str
    run: Callable[[Job], Path]


def ours(job: Job) -> Path:
    """This package."""
    archive = Archive(job.workload.archive, "archive", "0" * 32, HOUR, job.workload.project_id, 0)
    return convert(archive, Layout(job.folder), workers=parsers_for(job.cores), level=job.level).path


def duckdb_gz(job: Job) -> Path:
    """DuckDB straight from gzip; it cannot look into a tar, so it gets the lines without one."""
    return _duckdb(job, job.workload.ndjson_gz)


def untar_duckdb(job: Job) -> Path:
    """Unpack with tar, then DuckDB."""
    return _duckdb(job, _untar(job))


def plain_duckdb(job: Job) -> Path:
    """DuckDB from plain lines."""
    return _duckdb(job, job.workload.ndjson)


def untar_polars(job: Job) -> Path:
    """Unpack with tar, then polars."""
    return _polars(job, _untar(job))


def plain_polars(job: Job) -> Path:
    """polars from plain lines."""
    return _polars(job, job.workload.ndjson)


def plain_pyarrow(job: Job) -> Path:
    """pyarrow's own streaming reader from plain lines."""
    target = job.folder / "out.parquet"
    archive = Archive(job.workload.archive, "archive", "0" * 32, HOUR, job.workload.project_id, 0)
    reader = RecordReader(ARTICLE_CHANGES, archive, frozenset({"html", "wikitext"}))
    pa.set_cpu_count(job.cores)
    batches = pj.open_json(
        job.workload.ndjson,
        read_options=pj.ReadOptions(block_size=_LONGEST_LINE),
        parse_options=pj.ParseOptions(explicit_schema=reader.shape.schema, unexpected_field_behavior="ignore"),
    )
    with _writer(job, target) as writer:
        for batch in batches:
            columns = reader.complete(reader.shape.columns(batch))
            writer.write_batch(reader.assemble(columns, pa.nulls(len(batch), pa.string())))
    return target


def standard_library(job: Job) -> Path:
    """`tarfile`, `json` and `from_pylist`: what one writes first."""
    target = job.folder / "out.parquet"
    with _writer(job, target) as writer, tarfile.open(job.workload.archive, "r|gz") as tar:
        for member in tar:
            rows: list[dict[str, Any]] = []
            content = tar.extractfile(member)
            for line in content or ():
                rows.append(_row(json.loads(line)))
                if len(rows) == 1000:
                    writer.write_table(pa.Table.from_pylist(rows, schema=ARTICLE_CHANGES.schema))
                    rows = []
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema=ARTICLE_CHANGES.schema))
    return target


OURS = Contender("ours", "tar.gz", ours)
PEERS = (
    Contender("duckdb read_json from .gz", "tar.gz", duckdb_gz),
    Contender("untar, then duckdb", "tar.gz", untar_duckdb),
    Contender("untar, then polars", "tar.gz", untar_polars),
    Contender("json and from_pylist", "tar.gz", standard_library),
    Contender("duckdb from plain ndjson", "ndjson", plain_duckdb),
    Contender("polars from plain ndjson", "ndjson", plain_polars),
    Contender("pyarrow open_json from plain ndjson", "ndjson", plain_pyarrow),
)
CONTENDERS = {contender.name: contender for contender in (OURS, *PEERS)}


def _untar(job: Job) -> Path:
    unpacked = job.folder / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", str(job.workload.archive), "-C", str(unpacked)], check=True)
    return unpacked


def _files(source: Path) -> list[str]:
    return [str(path) for path in sorted(source.glob("*.ndjson"))] if source.is_dir() else [str(source)]


def _writer(job: Job, target: Path) -> pq.ParquetWriter:
    narrow = [column.name for column in ARTICLE_CHANGES if not column.body]
    return pq.ParquetWriter(
        target,
        ARTICLE_CHANGES.schema,
        compression="zstd",
        compression_level=job.level,
        use_dictionary=narrow,
        write_statistics=narrow,
    )


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """A record as a row: times are parsed, absent fields are null."""
    row: dict[str, Any] = {"batch_hour": HOUR}
    for column in ARTICLE_CHANGES:
        if column.path is not None:
            value: Any = record
            for part in column.path.split("."):
                value = value.get(part) if value else None
            if value is not None and pa.types.is_timestamp(column.type):
                value = datetime.fromisoformat(value)
            row[column.name] = value
    row["event_at"] = next(row[name] for name in _MOMENTS if row[name] is not None)
    row["change_type"] = row["change_type"] or "update"
    return row


def _sql_type(declared: pa.DataType) -> str:
    if pa.types.is_struct(declared):
        fields = (f'"{item.name}" {_sql_type(item.type)}' for item in declared)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_list(declared):
        return f"{_sql_type(declared.value_type)}[]"
    names = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}
    return names.get(declared, "TIMESTAMPTZ")


def _duckdb(job: Job, source: Path) -> Path:
    import duckdb  # noqa: PLC0415  each contender is a process of its own and pays for its own imports

    target = job.folder / "out.parquet"
    schema = shape_of(ARTICLE_CHANGES).schema
    types = ", ".join(f"'{item.name}': '{_sql_type(item.type)}'" for item in schema)

    def place(path: str) -> str:
        return ".".join(f'"{part}"' for part in path.split("."))

    moments = ", ".join(place(ARTICLE_CHANGES[name].path or "") for name in _MOMENTS)
    computed = {
        "batch_hour": f"TIMESTAMPTZ '{HOUR.isoformat()}'",
        "event_at": f"coalesce({moments})",
        "change_type": 'coalesce("event"."type", \'update\')',
        "extra": "NULL::VARCHAR",
    }
    values = {c.name: f"CAST({place(c.path)} AS {_sql_type(c.type)})" for c in ARTICLE_CHANGES if c.path}
    columns = ", ".join(f"{(values | computed)[c.name]} AS {c.name}" for c in ARTICLE_CHANGES)
    with duckdb.connect(config={"threads": job.cores, "preserve_insertion_order": True}) as connection:
        connection.execute(
            f"COPY (SELECT {columns} FROM read_json({_files(source)!r}, format='newline_delimited', "
            f"columns={{{types}}}, maximum_object_size={_LONGEST_LINE})) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {job.level}, ROW_GROUP_SIZE 2048)"
        )
    return target


def _polars(job: Job, source: Path) -> Path:
    import polars as pl  # noqa: PLC0415  see _duckdb

    target = job.folder / "out.parquet"

    def kind(declared: pa.DataType) -> Any:
        if pa.types.is_struct(declared):
            return pl.Struct({item.name: kind(item.type) for item in declared})
        if pa.types.is_list(declared):
            return pl.List(kind(declared.value_type))
        names = {pa.int64(): pl.Int64, pa.float64(): pl.Float64, pa.bool_(): pl.Boolean}
        return names.get(declared, pl.String)  # times arrive as text and are parsed below

    schema = {item.name: kind(item.type) for item in shape_of(ARTICLE_CHANGES).schema}

    def value(name: str) -> pl.Expr:
        column = ARTICLE_CHANGES[name]
        first, *rest = (column.path or "").split(".")
        expression = pl.col(first)
        for part in rest:
            expression = expression.struct.field(part)
        if pa.types.is_timestamp(column.type):
            expression = expression.str.to_datetime(time_unit="us", time_zone="UTC", strict=True)
        return (expression.cast(kind(column.type)) if column.wire is not None else expression).alias(name)

    computed = {
        "batch_hour": pl.lit(HOUR).cast(pl.Datetime("us", "UTC")),
        "event_at": pl.coalesce([value(name) for name in _MOMENTS]),
        "change_type": value("change_type").fill_null("update"),
        "extra": pl.lit(None, pl.String),
    }
    columns = [computed[c.name].alias(c.name) if c.name in computed else value(c.name) for c in ARTICLE_CHANGES]
    frame = pl.scan_ndjson(_files(source), schema=schema, infer_schema_length=None)
    frame.select(columns).sink_parquet(target, compression="zstd", compression_level=job.level)
    return target
