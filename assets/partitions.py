"""The partitions: the hours of everything that comes in hourly files, and the identifiers of snapshots.

Projects and namespaces are configuration, because hour x project would pass Dagster's limit of 100,000 partitions
within a year and its range backfills of two dimensions are unreliable.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import AwareDatetime, TypeAdapter

from resources import files
from resources.datasets import RETENTION, last_complete_hour
from resources.datasets.paths import hour_folders
from resources.errors import MirrorError

if TYPE_CHECKING:
    from pathlib import Path

    from resources.datasets import Dataset

HOUR = timedelta(hours=1)
_NOTE = TypeAdapter(AwareDatetime)
_log = logging.getLogger(__name__)
_FORMAT = "%Y-%m-%d-%H:%M"

#: What no partition is older than, unless an operator says so: nobody can have archived it.
EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)


def hours_since(first: datetime) -> dg.HourlyPartitionsDefinition:
    """The hours from `first` on. In UTC, so that no hour is doubled or missing when clocks change."""
    return dg.HourlyPartitionsDefinition(start_date=key_of(first), timezone="UTC", fmt=_FORMAT)


def snapshots_of(dataset: Dataset) -> dg.DynamicPartitionsDefinition:
    """The snapshots of a dataset by the service's identifiers, which sensors and commands add."""
    return dg.DynamicPartitionsDefinition(name=dataset.archive)


def hour_of(partition_key: str) -> datetime:
    """The start of the hour that a partition key names (UTC)."""
    return datetime.strptime(partition_key, _FORMAT).replace(tzinfo=UTC)


def key_of(hour: datetime) -> str:
    """The partition key of the hour that `hour` lies in."""
    return hour.astimezone(UTC).strftime("%Y-%m-%d-%H:00")


#: What the assets are made with; the code location begins where it has something to show (see `pipelines.definitions`).
HOURS = hours_since(EARLIEST)


def oldest_hour(folder: Path) -> datetime | None:
    """The oldest hour that has a place `date=…/hour=…` in a folder; None: none has."""
    return next((hour for hour, _ in hour_folders(folder)), None)


def recent_hours(now: datetime) -> list[datetime]:
    """The complete hours that the service still keeps, oldest first."""
    newest = last_complete_hour(now)
    hours = [newest - back * HOUR for back in reversed(range(RETENTION // HOUR))]
    return [hour for hour in hours if hour > now - RETENTION]


def first_of_mirror(data: Path, now: datetime) -> datetime:
    """Return the oldest hour that the service still had when the data folder was first used.

    Processes of one mirror load the definitions at different times, and a run over hours fails in a process whose
    partitions begin later. So the hour is recorded once, in `state/first_hour.json`, for all later processes. An absent
    or empty folder is not changed: the hour is then that of `now`, as it is if the folder cannot be written.
    """
    path, hour = data / "state" / "first_hour.json", recent_hours(now)[0]

    def noted() -> datetime | None:
        found = files.read_cache(path, _NOTE)
        # any other was noted by a clock that was wrong
        return found.astimezone(UTC) if found is not None and EARLIEST <= found <= hour else None

    try:
        if (known := noted()) is not None:
            return known
        if not data.is_dir() or not any(data.iterdir()):
            return hour
        path.parent.mkdir(exist_ok=True)
        with files.held(path.with_name(f"{path.name}.lock"), wait_seconds=10):
            if (known := noted()) is not None:  # by another process meanwhile
                return known
            files.write(path, json.dumps(hour.isoformat()).encode() + b"\n")
    except (OSError, MirrorError) as error:
        _log.info("The first hour is not noted, so it is the oldest that the service still has (%s): %s", path, error)
    return hour
