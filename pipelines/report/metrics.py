"""The figures of `wme status` as metrics, in the text format of Prometheus.

Places (a dataset's project and namespace) are labels, hours and titles never are: 900 projects are 3,600 series.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from resources.tables import NO_SNAPSHOT, HourState
from resources.warehouse.read.coverage import gap_hours

if TYPE_CHECKING:
    from pipelines.report.status import Status

_PREFIX: Final = "wme"
_PLACE: Final = ("dataset", "project", "namespace")
#: Of each figure its metric and what it means. Base units, as Prometheus names them.
FIGURES: Final = {
    "free_bytes": ("disk_free_bytes", "Free space of the disk that the data folder is on."),
    "published_at": ("published_timestamp_seconds", "When the file for analysts was published."),
    "published_bytes": ("published_bytes", "Size of the file for analysts."),
    "article_count": ("articles", "Current pages."),
    "change_count": ("changes", "Changes that are loaded, each event once."),
    "reject_count": ("rejected_lines", "Lines that could not be converted and are kept."),
    "unapplied_file_count": ("unapplied_files", "Loaded files that the current pages do not include yet."),
    "missing_lake_file_count": (
        "missing_lake_files",
        "Files of the lake that the published file names and that are gone or damaged.",
    ),
}
#: The same of the stream.
STREAM: Final = {
    "is_running": ("stream_running", "Whether a process reads the stream: 1 or 0."),
    "newest_published_at": (
        "stream_newest_event_timestamp_seconds",
        "When the newest kept event was published by the service.",
    ),
    "lag_seconds": ("stream_lag_seconds", "How long ago that was."),
    "kept_until": ("stream_kept_until_timestamp_seconds", "Until when the service has the events that follow."),
    "events_per_second": ("stream_events_per_second", "Pace of the newest run."),
}


def text(status: Status, now: datetime) -> bytes:
    """Return the metrics. An unknown value has no sample; a metric is never a guess."""
    registry = CollectorRegistry()

    def gauge(name: str, meaning: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, meaning, labels, namespace=_PREFIX, registry=registry)

    gauge("status_timestamp_seconds", "When these figures were collected.").set(now.timestamp())
    gauge("attention", "Sentences of `wme status` that begin with !.").set(len(status.troubles))
    for named, figures in ((FIGURES, status.figures), (STREAM, status.stream or {})):
        for name, (metric, meaning) in named.items():
            if (value := figures.get(name)) is not None:
                gauge(metric, meaning).set(_number(value))
    if status.places:
        newest = gauge(
            "newest_hour_timestamp_seconds", "Start of the newest hour of which nothing more is to come.", _PLACE
        )
        gaps = gauge(
            "gap_hours",
            "Hours of the newest 48, unless asked otherwise, that are gaps: missing, lost, or never recorded between "
            "others.",
            _PLACE,
        )
        older = gauge("older_gap_hours", "Hours before those that are missing or lost.", _PLACE)
        snapshot = gauge("snapshot_loaded", f"1: a snapshot is loaded that the hours follow. 0: {NO_SNAPSHOT}.", _PLACE)
        lacking = gap_hours(status.gaps)
        for place in status.places:
            key = (place.dataset, place.project_id, place.namespace_id)
            labels = tuple(map(str, key))
            if place.newest_hour is not None:
                newest.labels(*labels).set(place.newest_hour.timestamp())
            if place.has_snapshot is not None:
                snapshot.labels(*labels).set(place.has_snapshot)
            gaps.labels(*labels).set(lacking[key])
            older.labels(*labels).set(place.older_gap_count)
        hours = gauge("hours", "Newest hours of all places by state.", ("dataset", "state"))
        for dataset, state, count in _by_state(status):
            hours.labels(dataset, state).set(count)
    return generate_latest(registry)


def _by_state(status: Status) -> Iterator[tuple[str, str, int]]:
    for dataset in dict.fromkeys(place.dataset for place in status.places):
        counts = [place.counts() for place in status.places if place.dataset == dataset]
        for state in HourState:
            yield dataset, state.value, sum(one[state.value] for one in counts)


def _number(value: Any) -> float:
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)
