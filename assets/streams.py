"""Job and asset for the realtime stream. The `stream` module contains the steps.

Each run of the job reads the stream for a limited time, and a sensor requests the next run. The job reports the stored
events as an external asset. A materializable asset would be part of "Materialize all" and delay other assets by an
hour.
"""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

from assets import layers
from assets.describe import OWNERS, as_failure, lake_metadata, run_config
from assets.steps import stream
from resources.adapters import EnterpriseResource, LakeResource, WarehouseResource
from resources.datasets import Family, datasets
from resources.datasets.live import Step
from resources.enterprise import StreamOptions
from resources.formatting import counted
from resources.lake.live import LiveLake

(_STREAMED,) = (one for one in datasets(Family.HOURLY) if one.stream is not None)
_FOLDER = str(_STREAMED.stream)
KEY = dg.AssetKey(["lake", _FOLDER])
STEP = "__".join(KEY.path)
#: Interval between a run's progress reports, in seconds. Shorter intervals would fill Dagster's history.
OBSERVED_SECONDS = 300.0
#: Counts in a run's metadata, with the fields of a step to which they correspond.
_COUNTS = {
    "events": "row_count",
    "events_of_other_projects": "other_count",
    "duplicates_dropped": "duplicate_count",
    "rejected_lines": "reject_count",
    "offset_resets": "reset_count",
}


class StreamConfig(BaseModel):
    """Duration and options for a stream run."""

    minutes: float = Field(
        default=60.0,
        gt=0,
        le=1440,
        description="Duration of the run in minutes. The keep_streaming sensor requests the next run.",
    )
    since_hours: float = Field(
        default=0.0,
        ge=0,
        le=48,
        description="Hours to look back on the first run. Later runs resume at the last offset.",
    )
    connections: int = Field(default=10, ge=1, le=10, description="Parallel connections.")


def _metadata(counts: Counter[str], began: float) -> dict[str, Any]:
    """Return event counts with their rate since `began` (`time.monotonic()`)."""
    pace = counts["events"] / max(time.monotonic() - began, 1e-3)
    return {**counts, "events_per_second": round(pace, 1)}


#: External asset of the stream events in the lake.
LIVE = dg.AssetSpec(
    KEY,
    deps=[layers.SERVICE],
    group_name="lake",
    kinds={"http", "parquet"},
    owners=list(OWNERS),
    metadata=lake_metadata(_STREAMED.table),
    description="Every event in the mirrored projects, seconds after it occurs. live_changes contains events for "
    "hours that have no file yet, and articles_live contains current pages. A run of the `stream` job reads "
    "for an hour, and the next run resumes at the last offset. Turn on the keep_streaming sensor, or run "
    "`wme stream`.",
)


def read_stream(
    context: dg.OpExecutionContext, enterprise: EnterpriseResource, lake: LakeResource, warehouse: WarehouseResource
) -> None:
    """Store the stream's events until the duration has elapsed. If the run is killed, no stored events are lost.

    The name of the step that calls this function ends with `STEP`.
    """
    config, now = run_config(StreamConfig, context), datetime.now(UTC)
    prefix = context.op_def.name.removesuffix(STEP).removesuffix("_")  # set by an embedding project
    key = KEY.with_prefix(prefix) if prefix else KEY
    until = time.monotonic() + config.minutes * 60
    live = LiveLake(lake.layout, _FOLDER, _STREAMED.table, lake.bodies_of(_STREAMED), enterprise.settings.scope)
    nothing = dict.fromkeys((*_COUNTS, "files"), 0)
    whole, lately, lag = Counter(nothing), Counter(nothing), dict[str, float]()
    began = reported = time.monotonic()

    def say(step: Step, lag_seconds: float | None) -> None:
        nonlocal lately, lag, reported
        lag = {} if lag_seconds is None else {"lag_seconds": round(lag_seconds, 1)}
        for counts in (whole, lately):
            counts.update({name: getattr(step, field) for name, field in _COUNTS.items()}, files=1)
        if time.monotonic() - reported >= OBSERVED_SECONDS:
            context.log_event(dg.AssetObservation(asset_key=key, metadata=_metadata(lately, reported) | lag))
            lately, reported = Counter(nothing), time.monotonic()

    with as_failure(), enterprise.client() as client:
        stream.keep(
            client,
            live,
            enterprise.settings.data / "state",
            since=now - timedelta(hours=config.since_hours),
            clock=lambda: datetime.now(UTC),
            ended=lambda: time.monotonic() >= until,
            say=say,
            warn=context.log.warning,
            options=StreamOptions(connections=config.connections, record_bytes=lake.record_bytes_max),
            loaded=partial(stream.loaded_hours, warehouse.glance, enterprise.settings.scope),
        )
    context.log.info("%s", f"Stored {counted(whole['events'], 'event')} in {live.folder}. The next run continues.")
    context.log_event(dg.AssetMaterialization(key, metadata=_metadata(whole, began) | lag))
