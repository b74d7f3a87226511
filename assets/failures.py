"""Errors of the library as Dagster failures.

Nothing is retried here: the client retries a request, the download a broken body, Dagster a run; each cause has one of
them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from pydantic import BaseModel, ValidationError

from assets.partitions import HOUR
from resources.adapters import run_fields
from resources.data_folder import advice
from resources.errors import MirrorError, retryable, unavailable
from resources.formatting import counted, hour_text, markdown_text, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime


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
    """One error as a Dagster failure."""
    return dg.Failure(description=sentence(error), metadata=_unavailable([error]), allow_retries=retryable(error))


def _unavailable(errors: Iterable[Exception]) -> dict[str, Any]:
    """Return the unavailable component (`service`, `warehouse`), which other runs need not try either.

    It is for readers that see only the events of this run.
    """
    ending = next((error for error in errors if unavailable(error)), None)
    return {} if ending is None else {"unavailable": unavailable(ending), "retryable": retryable(ending)}


class RunConfig(BaseModel):
    """The configuration of a step in the launchpad. A value that is out of bounds fails the step with a sentence."""

    @classmethod
    def config_schema(cls) -> dict[str, dg.Field]:
        """The fields for the decorator of a step."""
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

    With a context, the sentence is shown with the partition of the assets `keys` as well, where Dagster only names the
    run.
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
    good = total - len(failed)
    rest = {0: " What was loaded before stays.", 1: " The other one is loaded and stays."}.get(
        good, f" The other {good} are loaded and stay."
    )
    return dg.Failure(
        description=f"{what}{len(failed)} of {counted(total, 'hour')} failed.{rest}\n{listed}",
        metadata=_unavailable(failed.values())
        | {"failed_hours": dg.MetadataValue.md(_bullets(alike)), "failed_count": len(failed)},
        allow_retries=any(retryable(error) for error in failed.values()),
    )


def _bullets(alike: Mapping[str, Sequence[datetime]]) -> str:
    return "\n".join(f"- {_span(hours)}: {markdown_text(text)}" for text, hours in alike.items())


def _span(hours: Sequence[datetime]) -> str:
    """Hours in ascending order, for people."""
    first, last = hour_text(hours[0]), hour_text(hours[-1])
    if len(hours) == 1:
        return first
    if hours[-1] - hours[0] == (len(hours) - 1) * HOUR:
        return f"{first} to {last}"
    return f"{len(hours)} hours from {first} to {last}"
