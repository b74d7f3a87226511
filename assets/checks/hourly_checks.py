"""The checks of the hours that a run has made, as far as the columns of their dataset allow them."""

from collections.abc import Collection, Iterator

import dagster as dg

from assets import layers
from assets.checks.filed_checks import REJECTS_SHARE, Filed, audited, shared
from assets.checks.findings import Check, results
from assets.steps.hourly_run import HourlyRun
from resources.datasets import Dataset
from resources.formatting import counted, hour_text
from resources.warehouse import HourAudit

__all__ = ["REJECTS_SHARE", "hourly", "of_run"]


def hourly(dataset: Dataset) -> list[Check[Filed[HourAudit]]]:
    """The checks of a dataset of hourly files: those that its columns allow."""
    warehouse = layers.warehouse_key(dataset)
    found: list[Check[Filed[HourAudit]]] = shared(dataset, "hour", "event")
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
    return found


def of_run(run: HourlyRun, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
    """Answer the selected checks for the hours that a run made."""
    made = Filed(
        {hour_text(hour): archived.archives for hour, archived in run.archived.items()},
        {hour_text(hour): conversions for hour, conversions in run.conversions.items()},
        lambda: {hour_text(a.batch_hour): a for a in run.warehouse.warehouse.audit(run.loaded, run.dataset)},
    )
    return results(hourly(run.dataset), made, selected)
