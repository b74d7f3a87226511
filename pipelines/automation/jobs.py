"""The jobs: what is run together, for the datasets that are declared.

Backfill hours in the Dagster UI from the assets: `dagster job backfill` ignores the backfill policy and starts a run
per hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import compacted, current, layers, published, report, run_tags
from assets.families import streams
from pipelines.embedding import ALONE
from pipelines.process.processes import executor
from resources.datasets import Dataset, Family, datasets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pipelines.embedding import Prefix

REFERENCE, HOURS, HOUR_TO_PUBLISHED, LOOKUPS, PUBLISH = "reference", "hours", "hour_to_published", "lookups", "publish"
COMPACT, STREAM, REPORT = "compact", "stream", "report"


def of_snapshots(dataset: Dataset) -> str:
    """The name of the job over a dataset of snapshots.

    Each has one of its own, because each has partitions of its own.
    """
    return dataset.archive


def stream(prefix: Prefix = ALONE) -> dg.JobDefinition:
    """The job of the stream, which is not among those of `build_jobs`: they are over assets."""

    @dg.job(
        name=prefix.name(STREAM),
        executor_def=executor,
        # the sensor asks again, and waits longer each time: nobody else may
        tags={run_tags.MAX_RETRIES: "0"},
        description="Reads the realtime stream for an hour. The next run resumes at its last offset.",
    )
    def read() -> None:
        prefix.op(streams.read_stream)()

    return read


def build_jobs(
    mirrored: Collection[Dataset] | None = None,
    offered: Collection[Dataset] | None = None,
    prefix: Prefix = ALONE,
) -> list[Any]:
    """The jobs over assets: over hours of what is `mirrored`, over snapshots of what is `offered`."""
    mirrored, offered = (datasets() if some is None else some for some in (mirrored, offered))
    state = [*current.KEYS, published.KEY]
    hours = _all_of(one for one in datasets(Family.HOURLY) if one in mirrored)

    def job(name: str, selection: Iterable[dg.AssetKey], **options: Any) -> Any:
        # the executor is named here as well: another project may have its own
        return dg.define_asset_job(
            prefix.name(name),
            selection=dg.AssetSelection.assets(*map(prefix.key, selection)),
            executor_def=executor,
            **options,
        )

    return [
        job(
            REFERENCE,
            selection=_all_of(datasets(Family.LIST)),
            description="Takes the reference lists from the service to DuckDB.",
        ),
        *(
            job(
                of_snapshots(dataset),
                selection=layers.keys(dataset),
                description="Takes the newest version of one snapshot from the service to DuckDB.",
            )
            for dataset in datasets(Family.SNAPSHOT)
            if dataset in offered
        ),
        job(
            HOURS,
            selection=hours,
            description="Takes hourly files from the service to DuckDB: a range of hours in one run. `publish` then "
            "publishes them.",
        ),
        job(
            HOUR_TO_PUBLISHED,
            selection=[*hours, *state],
            description="Takes one hour from the service to the published file: `hours` and `publish` in one run.",
        ),
        job(
            LOOKUPS,
            selection=_all_of(datasets(Family.LOOKUP)),
            description="Looks up watched pages, and pages that a lost hour or a rejected line left uncertain, up to "
            "WME_LOOKUPS_PER_DAY a day.",
        ),
        job(
            PUBLISH,
            selection=state,
            description="Applies pending snapshots and hours to the current articles, then publishes.",
        ),
        job(
            REPORT,
            selection=[report.KEY],
            description="Writes the page about the mirror.",
        ),
        job(
            COMPACT,
            selection=[compacted.KEY],
            description="Writes files of the lake together into few, sorted ones.",
        ),
    ]


def _all_of(some: Iterable[Dataset]) -> list[dg.AssetKey]:
    return list(dict.fromkeys(key for dataset in some for key in layers.keys(dataset)))
