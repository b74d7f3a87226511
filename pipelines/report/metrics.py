"""Figures from `wme status` as metrics in Prometheus text format.

The dataset, the project and the namespace are labels. Hours and titles are not labels, because the number of series
must stay limited. For example, 900 projects produce 3,600 series.
"""

from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from pipelines.report.status import Status
from resources.tables import NO_SNAPSHOT
from resources.warehouse.read.coverage import gap_hours

_PLACE: Final = ("dataset", "project", "namespace")
#: Metric name and help text of each figure. Units are the base units of Prometheus.
FIGURES: Final = {
    "free_bytes": ("disk_free_bytes", "Free space on the data folder's disk."),
    "published_at": ("published_timestamp_seconds", "Time of the last publication."),
    "published_bytes": ("published_bytes", "Size of the published file."),
    "article_count": ("articles", "Number of current pages."),
    "change_count": ("changes", "Number of loaded changes, without duplicates."),
    "reject_count": ("rejected_lines", "Number of rejected records in `rejects`."),
    "unapplied_file_count": ("unapplied_files", "Number of loaded files that have not been applied to `articles`."),
    "missing_lake_file_count": (
        "missing_lake_files",
        "Number of missing or damaged lake files that the published file references.",
    ),
}
#: Metric name and help text of each stream figure.
STREAM: Final = {
    "is_running": ("stream_running", "1 if a process is reading the stream, otherwise 0."),
    "newest_published_at": ("stream_newest_event_timestamp_seconds", "Publication time of the newest stored event."),
    "lag_seconds": ("stream_lag_seconds", "Age of the newest stored event."),
    "kept_until": ("stream_kept_until_timestamp_seconds", "Time up to which all events are stored."),
    "events_per_second": ("stream_events_per_second", "Number of events per second in the newest run."),
}


def text(status: Status, now: datetime) -> bytes:
    """Return the metrics as text, without samples for unknown values."""
    registry = CollectorRegistry()

    def gauge(name: str, meaning: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, meaning, labels, namespace="wme", registry=registry)

    gauge("status_timestamp_seconds", "Time at which these figures were collected.").set(now.timestamp())
    gauge("attention", "Number of problems that `wme status` reports.").set(len(status.troubles))
    figures = status.figures | (status.stream or {})
    for name, (metric, meaning) in (FIGURES | STREAM).items():
        if (value := figures.get(name)) is not None:
            is_moment = isinstance(value, str)
            gauge(metric, meaning).set(datetime.fromisoformat(value).timestamp() if is_moment else float(value))
    if status.places:
        newest = gauge("newest_hour_timestamp_seconds", "Start of the newest hour whose data is complete.", _PLACE)
        gaps = gauge(
            "gap_hours",
            "Number of the newest hours (48 by default) that are missing, lost, or unrecorded between recorded hours.",
            _PLACE,
        )
        older = gauge("older_gap_hours", "Number of earlier hours that are missing or lost.", _PLACE)
        snapshot = gauge("snapshot_loaded", f"1 if a snapshot is loaded. 0 means {NO_SNAPSHOT}.", _PLACE)
        hours = gauge("hours", "Number of recent hours by dataset and state.", ("dataset", "state"))
        lacking = gap_hours(status.gaps)
        for place in status.places:
            key = (place.dataset, place.project_id, place.namespace_id)
            if place.newest_hour is not None:
                newest.labels(*key).set(place.newest_hour.timestamp())
            if place.has_snapshot is not None:
                snapshot.labels(*key).set(place.has_snapshot)
            gaps.labels(*key).set(lacking[key])
            older.labels(*key).set(place.older_gap_count)
            for state, count in place.counts().items():
                hours.labels(place.dataset, state).inc(count)
    return generate_latest(registry)
