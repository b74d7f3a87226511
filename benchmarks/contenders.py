"""Ways to turn such an archive into Parquet with the columns of `article_changes`, each as its users would write it.

Belongs here: one function per contender. Does not belong here: choosing settings that make a peer look bad: each gets all
cores, and the options its documentation recommends.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import tarfile
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from benchmarks import ours as converter
from benchmarks.workload import HOUR
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.workload import Workload

#: Of the lines that the peers get. DuckDB's own default: it reads in buffers of twice as much, and larger ones cost it
#: memory and, where the archive is small, cores.
_LONGEST_LINE = 16 << 20
#: All but DuckDB's own default of 122,880 rows, polars' of 250,000: those hold gigabytes of pages until they are full,
#: and both are faster with less.
_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 512
_MOMENTS = ("event_published_at", "event_created_at", "modified_at")


@dataclass(frozen=True)
class Job:
    """What a contender is given: the workload, an empty folder for its files, and the settings of the run."""

    workload: Workload
    folder: Path
    cores: int
    level: int


@dataclass(frozen=True)
class Made:
    """The Parquet files that came of it, and how many lines were put aside as bad."""

    paths: tuple[Path, ...]
    reject_count: int = 0


@dataclass(frozen=True)
class Contender:
    """One way to do the work, and what it starts from: `tar.gz`, or `ndjson` that somebody else has unpacked before.

    `library` is imported before the clock starts.
    """

    name: str
    starts_from: str
    run: Callable[[Job], Made]
    library: str = "pyarrow"

    def prepare(self) -> None:
        """What a process does once, however much it converts."""
        importlib.import_module(self.library)


def ours(job: Job) -> Made:
    """This package."""
    made = converter.convert(job.workload, job.folder, job.level)
    return Made(tuple(one.path for one in made), sum(one.reject_count for one in made))


def duckdb_gz(job: Job) -> Made:
    """DuckDB straight from gzip; it cannot look into a tar, so it gets the lines without one."""
    return _duckdb(job, job.workload.ndjson_gz)


def untar_duckdb(job: Job) -> Made:
    """Unpack with tar, then DuckDB."""
    return _duckdb(job, _untar(job))


def plain_duckdb(job: Job) -> Made:
    """DuckDB from plain lines."""
    return _duckdb(job, job.workload.ndjson)


def untar_polars(job: Job) -> Made:
    """Unpack with tar, then polars."""
    return _polars(job, _untar(job))


def plain_polars(job: Job) -> Made:
    """polars from plain lines."""
    return _polars(job, job.workload.ndjson)


def plain_pyarrow(job: Job) -> Made:
    """pyarrow's own streaming reader from plain lines."""
    target = job.folder / "out.parquet"
    pa.set_cpu_count(job.cores)
    batches = pj.open_json(
        job.workload.ndjson,
        read_options=pj.ReadOptions(block_size=_LONGEST_LINE),
        parse_options=pj.ParseOptions(explicit_schema=converter.RECORD_SCHEMA, unexpected_field_behavior="ignore"),
    )
    with _writer(job, target) as writer:
        for batch in batches:
            writer.write_batch(_assembled(batch))
    return Made((target,))


def standard_library(job: Job) -> Made:
    """`tarfile`, `json` and `from_pylist`: what one writes first."""
    target = job.folder / "out.parquet"
    with _writer(job, target) as writer, tarfile.open(job.workload.archives[0], "r|gz") as tar:
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
    return Made((target,))


OURS = Contender("ours", "tar.gz", ours)
PEERS = (
    Contender("duckdb read_json from .gz", "tar.gz", duckdb_gz, "duckdb"),
    Contender("untar, then duckdb", "tar.gz", untar_duckdb, "duckdb"),
    Contender("untar, then polars", "tar.gz", untar_polars, "polars"),
    Contender("json and from_pylist", "tar.gz", standard_library),
    Contender("duckdb from plain ndjson", "ndjson", plain_duckdb, "duckdb"),
    Contender("polars from plain ndjson", "ndjson", plain_polars, "polars"),
    Contender("pyarrow open_json from plain ndjson", "ndjson", plain_pyarrow),
)
CONTENDERS = {contender.name: contender for contender in (OURS, *PEERS)}


def _untar(job: Job) -> Path:
    unpacked = job.folder / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", str(job.workload.archives[0]), "-C", str(unpacked)], check=True)
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


def _assembled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records as they were parsed, taken apart into our columns."""

    def value(name: str) -> pa.Array:
        column = ARTICLE_CHANGES[name]
        first, *rest = (column.path or "").split(".")
        found = batch.column(first)
        return (pc.struct_field(found, rest) if rest else found).cast(column.type)

    computed = {
        "batch_hour": pa.repeat(pa.scalar(HOUR, ARTICLE_CHANGES["batch_hour"].type), len(batch)),
        "event_at": pc.coalesce(*map(value, _MOMENTS)),
        "change_type": pc.fill_null(value("change_type"), "update"),
        "extra": pa.nulls(len(batch), pa.string()),
    }
    arrays = [computed[column.name] if column.name in computed else value(column.name) for column in ARTICLE_CHANGES]
    return pa.RecordBatch.from_arrays(arrays, schema=ARTICLE_CHANGES.schema)


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


def _duckdb(job: Job, source: Path) -> Made:
    import duckdb  # noqa: PLC0415  each contender is a process of its own, with no other's library in it

    target = job.folder / "out.parquet"
    schema = converter.RECORD_SCHEMA
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
    with duckdb.connect(config={"threads": job.cores, "preserve_insertion_order": False}) as connection:
        connection.execute(
            f"COPY (SELECT {columns} FROM read_json({_files(source)!r}, format='newline_delimited', "
            f"columns={{{types}}}, maximum_object_size={_LONGEST_LINE})) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {job.level}, ROW_GROUP_SIZE_BYTES {_GROUP_BYTES})"
        )
    return Made((target,))


def _polars(job: Job, source: Path) -> Made:
    import polars as pl  # noqa: PLC0415  see _duckdb

    target = job.folder / "out.parquet"

    def kind(declared: pa.DataType) -> Any:
        if pa.types.is_struct(declared):
            return pl.Struct({item.name: kind(item.type) for item in declared})
        if pa.types.is_list(declared):
            return pl.List(kind(declared.value_type))
        names = {pa.int64(): pl.Int64, pa.float64(): pl.Float64, pa.bool_(): pl.Boolean}
        return names.get(declared, pl.String)  # times arrive as text and are parsed below

    schema = {item.name: kind(item.type) for item in converter.RECORD_SCHEMA}

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
    frame.select(columns).sink_parquet(
        target, compression="zstd", compression_level=job.level, row_group_size=_GROUP_ROWS, maintain_order=False
    )
    return Made((target,))
