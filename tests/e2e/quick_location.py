"""The code location with sensors that run every few seconds, over the last few hours only.

A test cannot wait for ten minutes. Belongs here: the shorter intervals. All else is the product's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from assets import layers
from pipelines.automation import discovery
from pipelines.definitions import build_defs
from resources import settings
from resources.datasets import SNAPSHOT_ARTICLES, Family, datasets

if TYPE_CHECKING:
    from datetime import datetime

#: Hours that a test has to wait for, newest last; two of them may not be published yet.
HOURS = 4


def newest(now: datetime) -> list[datetime]:
    """The newest complete hours, oldest first."""
    return layers.recent_hours(now)[-HOURS:]


def quick(sensor: dg.SensorDefinition) -> dg.SensorDefinition:
    """The sensor, switched on and looking every few seconds."""
    sensor._min_interval = 2 if sensor.name in AWAITED else 10
    sensor._default_status = dg.DefaultSensorStatus.RUNNING
    return sensor


#: A test waits for what these find; every look of any sensor costs a twentieth of a second.
AWAITED = {"discover_hours", "discover_snapshots", "end_killed_runs"}
discovery.recent_hours = newest
defs = build_defs(settings.read())
#: Off, as the product has them: a slow snapshot of one dataset keeps the others of its pool waiting.
OTHERS = {f"discover_{one.archive}" for one in datasets(Family.SNAPSHOT) if one is not SNAPSHOT_ARTICLES}
for one in defs.sensors or ():
    if one.name not in OTHERS:
        quick(one)
