"""The realtime stream: the views over its events, how far it is kept, and how it was read."""

from __future__ import annotations

from dataclasses import replace

from resources.tables.articles import ARTICLE_CHANGES, ARTICLES
from resources.tables.declaration import DOUBLE, INT, TIMESTAMP, Column, Table

LIVE_CHANGES = replace(
    ARTICLE_CHANGES,
    name="live_changes",
    description=(
        "Events of the realtime stream whose hours have no file yet, with the page text. An event is here seconds "
        "after it happened, until the file of its hour is published; then it is in `article_changes`. No row: no "
        "stream is kept."
    ),
)
CHANGES_LIVE = replace(
    ARTICLE_CHANGES.narrow,
    name="changes_live",
    description=(
        "`article_changes` and `live_changes` together: every change up to the newest event of the stream. "
        "`event_partition` is not null in rows of the stream."
    ),
)
ARTICLES_LIVE = replace(
    ARTICLES,
    name="articles_live",
    description=(
        "The pages as of the newest event of the realtime stream, by the rule of `articles`. Without a stream it "
        "equals `articles`."
    ),
)

STREAM_STATE = Table(
    "stream_state",
    "How far the realtime stream is kept, by partition, as of its newest file. No row: no stream is kept.",
    (
        Column(
            "partition",
            INT,
            "Partition of the stream (0 to 49); five in a row are a part, which one connection reads.",
            required=True,
        ),
        Column("next_offset", INT, "Offset that comes next; all before it are kept.", required=True),
        Column(
            "event_count", INT, "Events of the mirrored projects that were kept since the stream began.", required=True
        ),
        Column(
            "newest_published_at", TIMESTAMP, "When the newest event of the partition was published, of any project."
        ),
        Column(
            "lag_seconds",
            DOUBLE,
            "Seconds since then, at the moment of the question. A partition without events grows older as well: judge "
            "by the smallest of a part.",
        ),
    ),
    key=("partition",),
)
STREAM_RUNS = Table(
    "stream_runs",
    "The last 24 readings of the realtime stream: runs of `wme stream`, or of its asset. Kept like stream_state.",
    (
        Column("began_at", TIMESTAMP, "When it began.", required=True),
        Column("kept_at", TIMESTAMP, "When it wrote its newest file.", required=True),
        Column("connection_count", INT, "Connections side by side.", required=True),
        Column("reconnect_count", INT, "How often one of them was opened again.", required=True),
        Column("event_count", INT, "Events of the mirrored projects that were kept.", required=True),
        Column("other_count", INT, "Events of other projects and namespaces.", required=True),
        Column("duplicate_count", INT, "Events that came again and were dropped.", required=True),
        Column(
            "reject_count",
            INT,
            "Lines that are no events that can be; they are in lake/live_changes_rejects, with the reasons.",
            required=True,
        ),
        Column(
            "reset_count",
            INT,
            "Times that the offsets of a partition went back, as when the service numbers its events again.",
            required=True,
        ),
        Column(
            "too_long_count", INT, "Events that were longer than WME_MAX_RECORD_MB and were left out.", required=True
        ),
        Column("events_per_second", DOUBLE, "Events that were kept, a second."),
    ),
    key=("began_at",),
)
LIVE_VIEWS = (LIVE_CHANGES, CHANGES_LIVE, ARTICLES_LIVE)
STREAM_VIEWS = (STREAM_STATE, STREAM_RUNS)
