"""Convert library results and errors to Dagster schemas, metadata and failures.

This module does not retry anything. The client retries requests, the downloader retries interrupted responses, and
Dagster retries runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from resources.data_folder import advice
from resources.errors import MirrorError, retryable, unavailable
from resources.formatting import counted, hour_text, markdown_text, refusal, size_text, value_text
from resources.lake import ConvertedFile, drift_of
from resources.tables import Table

_Config = TypeVar("_Config", bound=BaseModel)

OWNERS = ("team:data-platform",)

#: Columns in previews of changes and articles. The columns' total width fits the Dagster UI.
PREVIEW = ("project_id", "name", "version_id", "event_at", "editor_name")
PREVIEW_ROWS = 5


def lake_metadata(table: Table) -> dict[str, Any]:
    """Return metadata with Dagster's schema for the columns of a table: types, descriptions and nullability."""
    columns = [
        dg.TableColumn(
            column.name,
            _type(column.type),
            description=f"{column.description} {_fields(column.type)}".strip(),
            constraints=dg.TableColumnConstraints(nullable=not column.required),
        )
        for column in table
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=columns)}


def _type(type_: pa.DataType) -> str:
    """Format a type briefly, because a full struct type would leave no room for descriptions in the UI."""
    if pa.types.is_list(type_):
        return f"list<{_type(type_.value_type)}>"
    return "struct" if pa.types.is_struct(type_) else str(type_)


def _fields(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return _fields(type_.value_type)
    if not pa.types.is_struct(type_):
        return ""
    return "Fields: " + ", ".join(f"{field.name} ({_type(field.type)})" for field in type_) + "."


def table_metadata(table: Table) -> dict[str, Any]:
    """Return metadata with a DuckDB table's schema and full name, by which Dagster identifies the table."""
    return lake_metadata(table) | {"dagster/table_name": f"warehouse.main.{table.name}"}


def preview(paths: Sequence[Path], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Format the given columns from the first rows of each Parquet file as a Markdown table."""
    declared = pq.read_schema(paths[0]).names
    columns = [name for name in columns if name in declared] or declared[:PREVIEW_ROWS]
    each = -(-PREVIEW_ROWS // len(paths))
    rows: list[dict[str, Any]] = []
    for path in paths[:PREVIEW_ROWS]:
        with pq.ParquetFile(path) as file:
            first = next(file.iter_batches(batch_size=each, columns=list(columns)), None)
            rows += first.to_pylist() if first is not None else []
    return markdown(rows, columns)


def markdown(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Format the given columns as a Markdown table, with thousands separators in quantities but not in identifiers."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(column, row.get(column)) for column in columns) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def sized(metadata: dict[str, Any]) -> dict[str, Any]:
    """Add a readable size for each byte count to the metadata, because the Dagster UI shows numbers without units."""
    return metadata | {
        name.replace("bytes", "size"): size_text(value)
        for name, value in metadata.items()
        if "bytes" in name.split("_")
    }


#: Names of metadata entries that describe a run's work, not the current state.
_WORK = frozenset(
    {
        *("files_fetched", "bytes_fetched", "size_fetched", "requests", "quota_units", "form", "because"),
        *("files_converted", "seconds", "seconds_by_archive", "dropped_versions"),
    }
)
#: Name of the metadata entry with the time of the work, if an earlier run did the work.
WORKED_AT = "unchanged_since"


def earlier_work(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, version: str) -> dict[str, Any]:
    """Return metadata about the work that created a partition, to be plotted for runs that skipped the partition.

    The metadata comes from the partition's newest materialization if its data version matches.
    """
    known = instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1)
    for record in known.records:
        before = record.asset_materialization
        if before is not None and (before.tags or {}).get("dagster/data_version") == version:
            work = {name: value for name, value in before.metadata.items() if name in _WORK}
            return work | {WORKED_AT: before.metadata.get(WORKED_AT) or dg.MetadataValue.timestamp(record.timestamp)}
    return {}


def _cell(column: str, value: object) -> str:
    if isinstance(value, int) and column == "size":
        return size_text(value)
    return markdown_text(value_text(value, column)[:200])


def lake_metadata_of(conversions: Sequence[ConvertedFile]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": sum(c.row_count for c in conversions),
        "rejects": sum(c.reject_count for c in conversions),
        "ndjson_bytes": sum(c.ndjson_bytes for c in conversions),
        "lake_bytes": sum(c.lake_bytes for c in conversions),
        "files": len(conversions),
        "files_converted": sum(c.converted for c in conversions),
        "seconds": round(sum(c.seconds for c in conversions), 3),
    }
    if conversions:
        metadata["dagster/uri"] = str(conversions[0].path.parent)
        metadata["preview"] = preview([c.path for c in conversions], PREVIEW)
    if drift := drift_of(conversions):
        rows = [{"field": one.path, "count": one.count, "example": one.example} for one in drift]
        metadata["unknown_fields"] = markdown(rows, ("field", "count", "example"))
    if remarks := [f"{made.identifier}: {remark}" for made in conversions for remark in made.remarks]:
        metadata["remarks"] = "\n".join(remarks)
    return sized(metadata)


def sentence(error: Exception) -> str:
    """Return an error's message, prefixed with the class name for errors from other libraries."""
    text = str(error).strip()
    if isinstance(error, MirrorError):
        return text
    if isinstance(error, OSError) and error.strerror:
        paths = [str(path) for path in (error.filename, error.filename2) if path]
        where = f": {' -> '.join(paths)}" if paths else ""
        return f"{error.strerror}{where}. Committed data is kept. {advice(error)} Then run the same command again."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure(error: Exception) -> dg.Failure:
    return dg.Failure(description=sentence(error), metadata=_unavailable([error]), allow_retries=retryable(error))


def _unavailable(errors: Iterable[Exception]) -> dict[str, Any]:
    """Return metadata that names the unavailable component, which is `service` or `warehouse`."""
    ending = next((error for error in errors if unavailable(error)), None)
    return {} if ending is None else {"unavailable": unavailable(ending), "retryable": retryable(ending)}


def run_config(form: type[_Config], context: dg.AssetExecutionContext | dg.OpExecutionContext) -> _Config:
    """Read a step's configuration from Dagster's launchpad. An invalid value fails the step with a message."""
    of_step = context.op_execution_context if isinstance(context, dg.AssetExecutionContext) else context
    try:
        return form(**of_step.op_config)
    except ValidationError as error:
        raise dg.Failure(description=refusal(error), allow_retries=False) from None


@contextmanager
def as_failure(context: dg.AssetExecutionContext | None = None, keys: Iterable[dg.AssetKey] = ()) -> Iterator[None]:
    """Convert any error in the block to a Dagster failure with a message.

    With a context, the message is also attached to the current partition of the assets in `keys`.
    """
    try:
        yield
    except dg.Failure:
        raise
    except Exception as error:
        if context is not None:
            tell(context, keys, context.partition_key, error)
        raise failure(error) from error


def tell(context: dg.AssetExecutionContext, keys: Iterable[dg.AssetKey], partition: str, error: Exception) -> None:
    """Attach an error's message to a partition of the given assets."""
    for key in keys:
        context.log_event(dg.AssetObservation(key, partition=partition, description=markdown_text(sentence(error))))


def failed_hours(failed: Mapping[datetime, Exception], total: int, what: str = "") -> dg.Failure:
    """Return the Dagster failure for a run, with the failed hours by reason. `what` is a prefix for the message."""
    alike: dict[str, list[datetime]] = {}
    for hour, error in sorted(failed.items()):
        alike.setdefault(sentence(error), []).append(hour)
    listed = "\n".join(f"- {_span(hours)}: {text}" for text, hours in alike.items())
    bullets = "\n".join(f"- {_span(hours)}: {markdown_text(text)}" for text, hours in alike.items())
    good = total - len(failed)
    rest = {0: " Data loaded earlier is kept.", 1: " The other hour is loaded."}.get(
        good, f" The other {good} hours are loaded."
    )
    return dg.Failure(
        description=f"{what}{len(failed)} of {counted(total, 'hour')} failed.{rest}\n{listed}",
        metadata=_unavailable(failed.values())
        | {"failed_hours": dg.MetadataValue.md(bullets), "failed_count": len(failed)},
        allow_retries=any(retryable(error) for error in failed.values()),
    )


def _span(hours: Sequence[datetime]) -> str:
    first, last = hour_text(hours[0]), hour_text(hours[-1])
    if len(hours) == 1:
        return first
    if hours[-1] - hours[0] == (len(hours) - 1) * timedelta(hours=1):
        return f"{first} to {last}"
    return f"{len(hours)} hours from {first} to {last}"
