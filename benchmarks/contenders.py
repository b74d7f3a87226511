"""Contenders that convert an archive to Parquet with the columns of `article_changes`.

Each contender is one function, written the way a typical user would write it. Each contender uses all cores and the
options that its documentation recommends.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workload import HOUR
from resources.datasets import Family, named
from resources.engine import Engine
from resources.lake import Archive, Converter, Layout
from resources.lake.decode.record_schema import record_schema_of
from resources.tables import ARTICLE_CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.workload import Workload

#: Record schema for the peers, which is nested and omits undeclared fields.
RECORD_SCHEMA = pa.schema(record_schema_of(ARTICLE_CHANGES).type)
#: Maximum line length in bytes for the peers, which is DuckDB's default. With larger buffers, DuckDB would need more
#: memory and use fewer threads for small archives.
_LONGEST_LINE = 16 << 20
#: Rows per row group. The defaults (122,880 rows in DuckDB, 250,000 in polars) would buffer gigabytes of page text.
#: Both libraries are faster with smaller row groups.
_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 512
_MOMENTS = ("event_published_at", "event_created_at", "modified_at")


@dataclass(frozen=True)
class Job:
    """Workload, empty output folder, and settings of a run."""

    workload: Workload
    folder: Path
    cores: int
    level: int


@dataclass(frozen=True)
class Output:
    """Parquet files that a contender wrote, and the number of rejected records."""

    paths: tuple[Path, ...]
    reject_count: int = 0


@dataclass(frozen=True)
class Contender:
    """Conversion method with its input (`tar.gz` or unpacked `ndjson`). The import of `library` is not measured."""

    name: str
    starts_from: str
    run: Callable[[Job], Output]
    library: str = "pyarrow"


def count(output: Output) -> dict[str, float]:
    """Return the numbers of rows, rejects and bytes, and the sum of all revisions. Equal rows have equal sums."""
    rows = versions = 0
    for path in output.paths:
        with pq.ParquetFile(path) as file:
            rows += file.metadata.num_rows
            versions += pc.sum(file.read(columns=["version_id"])["version_id"]).as_py() or 0
    size = sum(path.stat().st_size for path in output.paths)
    return {"rows": rows, "rejects": output.reject_count, "MB out": size / 1e6, "version sum": versions}


def ours(job: Job) -> Output:
    """Convert all archives with the pipeline's converter and default settings."""
    layout = Layout(job.folder)
    with Converter(level=job.level) as converter:
        outcomes = Engine().map(
            lambda archive: converter.convert(archive, layout), _archives(job.workload), workers=converter.readers
        )
    made = [outcome.unwrap() for outcome in outcomes]
    return Output(tuple(one.path for one in made), sum(one.reject_count for one in made))


def duckdb_gz(job: Job) -> Output:
    """Convert a gzip file with DuckDB. DuckDB cannot read a tar, so the input contains only the lines."""
    return _duckdb(job, job.workload.ndjson_gz)


def untar_duckdb(job: Job) -> Output:
    """Unpack the archive with tar, then convert the lines with DuckDB."""
    return _duckdb(job, _untar(job))


def plain_duckdb(job: Job) -> Output:
    """Convert uncompressed lines with DuckDB."""
    return _duckdb(job, job.workload.ndjson)


def untar_polars(job: Job) -> Output:
    """Unpack the archive with tar, then convert the lines with polars."""
    return _polars(job, _untar(job))


def plain_polars(job: Job) -> Output:
    """Convert uncompressed lines with polars."""
    return _polars(job, job.workload.ndjson)


def standard_library(job: Job) -> Output:
    """Convert with `tarfile`, `json` and `from_pylist`, which most people would try first."""
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
    return Output((target,))


OURS = Contender("ours", "tar.gz", ours)
PEERS = (
    Contender("duckdb read_json from .gz", "tar.gz", duckdb_gz, "duckdb"),
    Contender("untar, then duckdb", "tar.gz", untar_duckdb, "duckdb"),
    Contender("untar, then polars", "tar.gz", untar_polars, "polars"),
    Contender("json and from_pylist", "tar.gz", standard_library),
    Contender("duckdb from plain ndjson", "ndjson", plain_duckdb, "duckdb"),
    Contender("polars from plain ndjson", "ndjson", plain_polars, "polars"),
)


def _archives(workload: Workload) -> list[Archive]:
    """Return a workload's archives with the descriptions that the pipeline requires."""
    if (dataset := named(workload.dataset)).family is Family.SNAPSHOT:
        snapshot = f"{workload.project_id}_namespace_0"
        return [
            Archive(
                *(path, snapshot, f"{number:032x}", None, workload.project_id, 0),
                snapshot_id=snapshot,
                snapshot_version=f"{number:032x}",
                dataset=dataset,
            )
            for number, path in enumerate(workload.archives)
        ]
    return [
        Archive(path, f"archive_{number}", "0" * 32, HOUR, workload.project_id, 0)
        for number, path in enumerate(workload.archives)
    ]


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


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Convert a record to a row. Times are parsed, and missing fields become null."""
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


def _duckdb(job: Job, source: Path) -> Output:
    import duckdb  # noqa: PLC0415  each contender is a process of its own, with no other's library in it

    target = job.folder / "out.parquet"
    schema = RECORD_SCHEMA
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
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {job.level}, "
            f"ROW_GROUP_SIZE_BYTES {_GROUP_BYTES})"
        )
    return Output((target,))


def _polars(job: Job, source: Path) -> Output:
    import polars as pl  # noqa: PLC0415  see _duckdb

    target = job.folder / "out.parquet"

    def kind(declared: pa.DataType) -> Any:
        if pa.types.is_struct(declared):
            return pl.Struct({item.name: kind(item.type) for item in declared})
        if pa.types.is_list(declared):
            return pl.List(kind(declared.value_type))
        names = {pa.int64(): pl.Int64, pa.float64(): pl.Float64, pa.bool_(): pl.Boolean}
        return names.get(declared, pl.String)  # times are strings, which are parsed below

    schema = {item.name: kind(item.type) for item in RECORD_SCHEMA}

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
    return Output((target,))
