"""The checks of the hours that a run has made, as far as the columns of their dataset allow them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets import layers
from assets.checks.filed_checks import REJECTS_SHARE, Filed, audited, shared
from assets.checks.findings import Check, Found, results
from assets.describe import markdown
from assets.steps.hourly_run import HourlyRun
from resources.datasets import ARTICLE_CHANGES, Dataset
from resources.errors import MirrorError
from resources.formatting import counted, hour_text
from resources.warehouse import Comparison, HourAudit

#: Hours, projects and namespaces whose comparison with the stream is shown, those that differ most first.
_SHOWN = 50

__all__ = ["REJECTS_SHARE", "hourly", "of_run"]


@dataclass(frozen=True)
class FiledHours(Filed[HourAudit]):
    """The hours that a run has made; `compare` compares them with the realtime stream."""

    compare: Callable[[], Sequence[Comparison]]


def hourly(dataset: Dataset) -> list[Check[Any]]:
    """The checks of a dataset of hourly files: those that its columns allow."""
    warehouse = layers.warehouse_key(dataset)
    found: list[Check[Any]] = [*shared(dataset, "hour", "event")]
    if "event_at" in dataset.table.schema.names:
        found.append(
            Check(
                dg.AssetCheckSpec(
                    "no_event_before_its_hour", asset=warehouse, description="An hour's file begins with the hour."
                ),
                audited(lambda a: a.early_count and f"{counted(a.early_count, 'event')} before the hour"),
                "The events are kept and count by their own time, so nothing is to be done.",
            )
        )
    if dataset is ARTICLE_CHANGES:
        found.append(
            Check(
                dg.AssetCheckSpec(
                    "agrees_with_stream",
                    asset=warehouse,
                    description="The files of the hour and the realtime stream have the same events, as far as the "
                    "stream covers the hour.",
                ),
                _agreeing,
                "The files count. Events that are only in the stream are missing from the mirror: see `wme rejects`, "
                "or materialize the hour again.",
                is_warning=True,
            )
        )
    return found


def _agreeing(made: FiledHours) -> Found:
    """Compare the hours with the stream; the metadata has the counts, and the part of each hour that was compared."""
    try:
        compared = made.compare()
    except MirrorError as error:
        return Found([str(error)], 0)
    rows = [
        {
            "hour": hour_text(one.batch_hour),
            "project": one.project_id,
            "namespace": one.namespace_id,
            "compared": "a part of the hour" if one.is_partial else "the whole hour",
            "stream": one.stream_count,
            "file": one.file_count,
            "only in the stream": one.only_in_stream_count,
            "only in the file": one.only_in_file_count,
            "different": one.different_count,
        }
        for one in sorted(compared, key=lambda one: -one.difference_count)[:_SHOWN]
    ]
    wrong = [str(one) for one in compared if one.difference_count]
    return Found(wrong, len(compared), metadata={"comparison": markdown(rows, tuple(rows[0]))} if rows else {})


def of_run(run: HourlyRun, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
    """Answer the selected checks for the hours that a run made."""
    warehouse = run.warehouse.warehouse
    made = FiledHours(
        {hour_text(hour): archived.archives for hour, archived in run.archived.items()},
        {hour_text(hour): conversions for hour, conversions in run.conversions.items()},
        lambda: {hour_text(a.batch_hour): a for a in warehouse.audit(run.loaded, run.dataset)},
        lambda: warehouse.compare_stream(run.loaded),
    )
    return results(hourly(run.dataset), made, selected)
