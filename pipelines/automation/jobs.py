"""The jobs: what is run together, for the datasets that are declared.

Backfill hours in the Dagster UI from the assets: `dagster job backfill` ignores the backfill policy and starts a run per hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from assets import current, layers, published, report
from assets.families import streams
from assets.maintenance import compacted
from pipelines.process.dagster_internals import MAX_RETRIES_TAG
from resources.datasets import Dataset, Family, datasets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pipelines.process.dagster_internals import UnresolvedAssetJobDefinition

REFERENCE, HOURS, HOUR_TO_PUBLISHED, LOOKUPS, PUBLISH = "reference", "hours", "hour_to_published", "lookups", "publish"
COMPACT, STREAM, REPORT = "compact", "stream", "report"


def of_snapshots(dataset: Dataset) -> str:
    """The name of the job over a dataset of snapshots. Each has one of its own, because each has partitions of its own."""
    return dataset.archive


@dg.job(
    name=STREAM,
    # the sensor asks again, and waits longer each time: nobody else may
    tags={MAX_RETRIES_TAG: "0"},
    description="Reads the realtime stream for an hour. The next run resumes at its last offset.",
)
def stream() -> None:
    """Read the stream. Not among those of `build_jobs`, which are over assets."""
    streams.read_stream()


def build_jobs(
    mirrored: Collection[Dataset] | None = None, offered: Collection[Dataset] | None = None
) -> list[UnresolvedAssetJobDefinition]:
    """The jobs over the assets of every declared dataset; those over hours are of what is `mirrored`, those over snapshots of what is `offered`."""
    mirrored, offered = (datasets() if some is None else some for some in (mirrored, offered))
    state = dg.AssetSelection.assets(*current.KEYS, published.KEY)
    hours = _all_of(one for one in datasets(Family.HOURLY) if one in mirrored)
    return [
        dg.define_asset_job(
            REFERENCE,
            selection=_all_of(datasets(Family.LIST)),
            description="Takes the reference lists from the service to DuckDB.",
        ),
        *(
            dg.define_asset_job(
                of_snapshots(dataset),
                selection=dg.AssetSelection.assets(*layers.keys(dataset)),
                description="Takes the newest version of one snapshot from the service to DuckDB.",
            )
            for dataset in datasets(Family.SNAPSHOT)
            if dataset in offered
        ),
        dg.define_asset_job(
            HOURS,
            selection=hours,
            description="Takes hourly files from the service to DuckDB: a range of hours in one run. `publish` then publishes them.",
        ),
        dg.define_asset_job(
            HOUR_TO_PUBLISHED,
            selection=hours | state,
            description="Takes one hour from the service to the published file: `hours` and `publish` in one run.",
        ),
        dg.define_asset_job(
            LOOKUPS,
            selection=_all_of(datasets(Family.LOOKUP)),
            description="Looks up watched pages, and pages that a lost hour or a rejected line left uncertain, up to WME_LOOKUPS_PER_DAY a day.",
        ),
        dg.define_asset_job(
            PUBLISH,
            selection=state,
            description="Applies pending snapshots and hours to the current articles, then publishes.",
        ),
        dg.define_asset_job(
            REPORT,
            selection=dg.AssetSelection.assets(report.KEY),
            description="Writes the page about the mirror.",
        ),
        dg.define_asset_job(
            COMPACT,
            selection=dg.AssetSelection.assets(compacted.KEY),
            description="Writes files of the lake together into few, sorted ones.",
        ),
    ]


def _all_of(some: Iterable[Dataset]) -> dg.AssetSelection:
    keys = dict.fromkeys(key for dataset in some for key in layers.keys(dataset))
    return dg.AssetSelection.assets(*keys)
