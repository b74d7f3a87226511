"""Results and errors of the library as Dagster shows them: column schemas, tables, metadata, failures.

Nothing is retried here: the client retries a request, the download a broken body, Dagster a run; each cause has one of
them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from resources.adapters import run_fields
from resources.data_folder import advice
from resources.errors import MirrorError, retryable, unavailable
from resources.formatting import counted, hour_text, markdown_text, refusal, size_text
from resources.lake import ConvertedFile, drift_of
from resources.tables import Table

OWNERS = ("team:data-platform",)

#: Columns of a preview of changes or articles: what one looks at first, in as much width as a page has.
PREVIEW = ("project_id", "name", "version_id", "event_at", "editor_name")
PREVIEW_ROWS = 5


@functools.lru_cache(maxsize=64)
def column_schema(table: Table) -> dg.TableSchema:
    """The declaration as Dagster's column schema: names, types, descriptions, what may not be null."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                _type(column.type),
                description=f"{column.description} {_fields(column.type)}".strip(),
                constraints=dg.TableColumnConstraints(nullable=not column.required),
            )
            for column in table
        ]
    )


def _type(type_: pa.DataType) -> str:
    """A type in a few letters: the page leaves no room for descriptions beside a struct written out."""
    if pa.types.is_list(type_):
        return f"list<{_type(type_.value_type)}>"
    return "struct" if pa.types.is_struct(type_) else str(type_)


def _fields(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return _fields(type_.value_type)
    if not pa.types.is_struct(type_):
        return ""
    return "Fields: " + ", ".join(f"{field.name} ({_type(field.type)})" for field in type_) + "."


def lake_metadata(table: Table) -> dict[str, Any]:
    return {"dagster/column_schema": column_schema(table)}


def table_metadata(table: Table) -> dict[str, Any]:
    """Metadata of a DuckDB table: its schema and full name. Dagster takes assets of one name for the same table."""
    return lake_metadata(table) | {"dagster/table_name": f"warehouse.main.{table.name}"}


def preview(paths: Sequence[Path], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """The first rows of each Parquet file as a markdown table, few in all and only of the named columns."""
    declared = pq.read_schema(paths[0]).names
    columns = [name for name in columns if name in declared] or declared[:PREVIEW_ROWS]
    each = -(-PREVIEW_ROWS // len(paths))
    rows: list[dict[str, Any]] = []
    for path in paths[:PREVIEW_ROWS]:
        with pq.ParquetFile(path) as file:
            first = next(file.iter_batches(batch_size=each, columns=list(columns)), None)
            rows += first.to_pylist() if first is not None else []
    return markdown(rows, columns)


def remarks_of(conversions: Iterable[ConvertedFile]) -> str:
    """Remarks on the archives of some conversions, as sentences; empty if there are none."""
    return "\n".join(f"{made.identifier}: {remark}" for made in conversions for remark in made.remarks)


def markdown(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Rows as a markdown table of the named columns; quantities with thousands separators, identifiers without."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(column, row.get(column)) for column in columns) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def sized(metadata: dict[str, Any]) -> dict[str, Any]:
    """Add a readable copy of each byte count to the metadata: the Dagster UI shows numbers without a unit."""
    return metadata | {
        name.replace("bytes", "size"): size_text(value)
        for name, value in metadata.items()
        if "bytes" in name.split("_")
    }


#: Metadata about the work of a run, as opposed to what there is now.
_WORK = frozenset(
    {
        *("files_fetched", "bytes_fetched", "size_fetched", "requests", "quota_units", "form", "because"),
        *("files_converted", "seconds", "seconds_by_archive", "dropped_versions"),
    }
)
#: When the work was done that the metadata tell of, where that was in an earlier run.
WORKED_AT = "unchanged_since"


def earlier_materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, data_version: str
) -> dg.EventLogRecord | None:
    """The newest materialization of a partition, where it is of this version."""
    known = instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1)
    for record in known.records:
        before = record.asset_materialization
        if before is not None and (before.tags or {}).get("dagster/data_version") == data_version:
            return record
    return None


def work_of(record: dg.EventLogRecord | None) -> dict[str, Any]:
    """The metadata about the work that made a partition, for the plots of a run that found it done; else empty."""
    if record is None or (before := record.asset_materialization) is None:
        return {}
    work = {name: value for name, value in before.metadata.items() if name in _WORK}
    return work | {WORKED_AT: before.metadata.get(WORKED_AT) or dg.MetadataValue.timestamp(record.timestamp)}


def _cell(column: str, value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and column == "size":
        return size_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and not column.endswith("_id"):
        return f"{value:,}"
    return "" if value is None else markdown_text(str(value)[:200])


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
    if remarks := remarks_of(conversions):
        metadata["remarks"] = remarks
    return sized(metadata)


def sentence(error: Exception) -> str:
    """The message for people: the library's own sentence, or the kind and text of an error that has none."""
    text = str(error).strip()
    if isinstance(error, MirrorError):
        return text
    if isinstance(error, OSError) and error.strerror:
        paths = [str(path) for path in (error.filename, error.filename2) if path]
        where = f": {' -> '.join(paths)}" if paths else ""
        return f"{error.strerror}{where}. What was committed stays. {advice(error)} Then run the same command again."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failure(error: Exception) -> dg.Failure:
    return dg.Failure(description=sentence(error), metadata=_unavailable([error]), allow_retries=retryable(error))


def _unavailable(errors: Iterable[Exception]) -> dict[str, Any]:
    """Return the unavailable component (`service`, `warehouse`), for readers that see only the events of this run."""
    ending = next((error for error in errors if unavailable(error)), None)
    return {} if ending is None else {"unavailable": unavailable(ending), "retryable": retryable(ending)}


class RunConfig(BaseModel):
    """The configuration of a step in the launchpad. A value that is out of bounds fails the step with a sentence."""

    @classmethod
    def config_schema(cls) -> dict[str, dg.Field]:
        return run_fields(cls.model_fields)

    @classmethod
    def read(cls, context: dg.AssetExecutionContext | dg.OpExecutionContext) -> Self:
        """The values of a run; raises dg.Failure for one that cannot be."""
        of_step = context.op_execution_context if isinstance(context, dg.AssetExecutionContext) else context
        return cls(**of_step.op_config)

    def __init__(self, **values: Any) -> None:
        """Take the values of the run's configuration; raises dg.Failure for one that cannot be."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise dg.Failure(description=refusal(error), allow_retries=False) from None


@contextmanager
def as_failure(context: dg.AssetExecutionContext | None = None, keys: Iterable[dg.AssetKey] = ()) -> Iterator[None]:
    """Turn whatever goes wrong within into a Dagster failure with a sentence.

    With a context, the sentence is shown with the partition of the assets `keys` too, where Dagster only names the run.
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
    """Put the sentence of an error beside a partition of some assets."""
    for key in keys:
        context.log_event(dg.AssetObservation(key, partition=partition, description=markdown_text(sentence(error))))


def failed_hours(failed: Mapping[datetime, Exception], total: int, what: str = "") -> dg.Failure:
    """Return the failure of a run over several hours, with the failed hours and their reasons.

    A reason that several hours share appears once. All other hours have been committed: running again repeats only the
    failed ones. `what`: the dataset, where it must be named.
    """
    alike: dict[str, list[datetime]] = {}
    for hour, error in sorted(failed.items()):
        alike.setdefault(sentence(error), []).append(hour)
    listed = "\n".join(f"- {_span(hours)}: {text}" for text, hours in alike.items())
    bullets = "\n".join(f"- {_span(hours)}: {markdown_text(text)}" for text, hours in alike.items())
    good = total - len(failed)
    rest = {0: " What was loaded before stays.", 1: " The other one is loaded and stays."}.get(
        good, f" The other {good} are loaded and stay."
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
