"""The jobs: what is run together.

Belongs here: selections of assets under a name. Does not belong here: when they run (see `schedules`, `sensors`).
Backfill hours in Dagster's pages, from the assets: `dagster job backfill` ignores the backfill policy and makes a run per
hour.
"""

from __future__ import annotations

import dagster as dg

from assets import articles, layers, published
from resources import datasets

_HOURS = dg.AssetSelection.assets(*layers.keys(datasets.ARTICLE_CHANGES))
_SNAPSHOTS = dg.AssetSelection.assets(*layers.keys(datasets.SNAPSHOT_ARTICLES))
_STATE = dg.AssetSelection.assets(articles.KEY, published.KEY)
_REFERENCE = dg.AssetSelection.assets(*{key for one in datasets.LISTS for key in layers.keys(one)})

reference_job = dg.define_asset_job(
    "reference", selection=_REFERENCE, description="The four reference lists, from the service to DuckDB."
)
snapshots_job = dg.define_asset_job(
    "snapshots", selection=_SNAPSHOTS, description="One snapshot in its newest version, from the service to DuckDB."
)
hours_job = dg.define_asset_job(
    "hours", selection=_HOURS, description="Hourly files, from the service to DuckDB; a range of hours in one run."
)
hourly_job = dg.define_asset_job(
    "hourly", selection=_HOURS | _STATE, description="One hour, from the service to the published file."
)
publish_job = dg.define_asset_job(
    "publish",
    selection=_STATE,
    description="The pending snapshots and hours into the current articles, then the published file.",
)

JOBS = (reference_job, snapshots_job, hours_job, hourly_job, publish_job)
