"""The views over the realtime stream: its events of hours without a file, and the pages as of the newest event.

The stream's files are found when a view is queried, so an open reader sees events as soon as their file is written. The
hours that have files are those of the ledger beside the views. So an event is never shown twice: it is live until the
file of its hour is published.

    internal.live_window        the first hour without a file
    internal.lake_live_files    the files that count: a file that was merged into a larger one does not
    internal.lake_live_rows     their rows, with their places
    internal.live_events        the places of the events of hours without a file, each event once
    internal.live_states        the events that can decide which page lives, and their age
    internal.settled_states     the pages of `articles`, in the same form
    internal.lake_stream_facts  the facts of the newest file: how far the stream is, and how it was read
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from resources import files
from resources.datasets.live import EVENTS, LIVE_CHANGES, METADATA_KEY
from resources.files import set_aside
from resources.storage import UNREADABLE, is_damage, read_footer
from resources.tables import ARTICLES, STREAM_RUNS
from resources.warehouse.database.sql import FORMULAS, column_list, quoted, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)

#: A file without rows, for a folder in which there is no other. It is the first one by name, and gives the views their
#: columns.
_EMPTY = "_empty.parquet"
#: Orders the states of titles and pages like `newest_state_first`, as one value.
_AGE = (
    "struct_pack(event_at := event_at, version_id := version_id, is_update := is_update, event_key := event_key, "
    "earlier := -epoch_us(source_at), lower := -namespace_id)"
)
_COVERED = (
    "(SELECT batch_hour, project_id, namespace_id FROM main.hours "  # noqa: S608  constant words
    f"WHERE table_name = 'article_changes' AND state IN ({FORMULAS['covered']}))"
)
# two days before the newest hour of the ledger the service has no files any more
_WINDOW = f"""
SELECT coalesce(min(batch_hour), TIMESTAMPTZ '2001-01-01 00:00:00+00') AS first_hour
FROM (SELECT DISTINCT project_id, namespace_id FROM main.hours WHERE table_name = 'article_changes')
CROSS JOIN (
  SELECT unnest(
    generate_series(max(batch_hour) - INTERVAL 48 HOUR, max(batch_hour) + INTERVAL 1 HOUR, INTERVAL 1 HOUR)
  ) AS batch_hour
  FROM main.hours
  WHERE table_name = 'article_changes'
)
ANTI JOIN {_COVERED} AS covered USING (batch_hour, project_id, namespace_id)
"""  # noqa: S608  constant words
# A merged file counts a minute later than the files in it: a query lists the files more than once, and must not find it
# in one list alone. The files in it stay for an hour. A slow clock may have put events into the folder of the hour
# before.
_FILES = """
SELECT filename
FROM (
  SELECT *, lead(first_step) OVER of_steps >= first_step AND last_modified > now() - INTERVAL 1 MINUTE AS is_new
  FROM (
    SELECT
      filename,
      last_modified,
      regexp_extract(filename, '(\\d{12})(-\\d{12})?[.]parquet$', 1) AS first_step,
      regexp_extract(filename, '(\\d{12})[.]parquet$', 1) AS last_step
    FROM read_blob({files})
    WHERE filename >= (
      SELECT concat(
        {folder}, strftime(make_timestamp(epoch_us(first_hour)) - INTERVAL 1 HOUR, '/date=%Y-%m-%d/hour=%H')
      )
      FROM internal.live_window
    )
  )
  WHERE first_step <> ''
  WINDOW of_steps AS (ORDER BY last_step DESC, first_step)
)
WHERE is_new IS NOT TRUE
QUALIFY coalesce(
  first_step < min(first_step) OVER (
    ORDER BY last_step DESC, first_step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ),
  true
)
"""
_ROWS = """
SELECT *
FROM read_parquet({files}, hive_partitioning = false, filename = true, file_row_number = true, union_by_name = {mixed})
SEMI JOIN internal.lake_live_files USING (filename)
"""
# the file of an hour has each event with its title once as well
_EVENTS = f"""
SELECT
  batch_hour, project_id, namespace_id, article_id, name, event_at, version_id, change_type,
  md5_number_lower(concat(event_id, chr(10), replace(name, '_', ' '))) AS event_key,
  filename, file_row_number
FROM internal.lake_live_rows
ANTI JOIN {_COVERED} AS covered USING (batch_hour, project_id, namespace_id)
WHERE batch_hour >= (SELECT first_hour FROM internal.live_window)
QUALIFY row_number() OVER (
  PARTITION BY batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' ')
  ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, filename, file_row_number
) = 1
"""  # noqa: S608  constant words
_STATES = f"SELECT *, {{title_key}} AS title_key, {_AGE} AS age FROM ({{candidates}})"  # noqa: S608  constant words
_SETTLED = f"""
SELECT project_id, title, article_id, title_key, {_AGE} AS age, place
FROM (SELECT *, rowid AS place, replace(name, '_', ' ') AS title, true AS is_update FROM internal.articles)
"""  # noqa: S608  constant words

_FACTS = """
SELECT unnest(from_json(decode(value), '{{
  "offsets": "MAP(VARCHAR, BIGINT)", "event_counts": "MAP(VARCHAR, BIGINT)",
  "published_at": "MAP(VARCHAR, TIMESTAMPTZ)",
  "runs": [{{"began_at": "TIMESTAMPTZ", "kept_at": "TIMESTAMPTZ", {counts}}}]
}}'))
FROM (
  FROM parquet_kv_metadata({files})
  WHERE decode(CAST(key AS BLOB)) = '{key}'
  ORDER BY regexp_extract(file_name, '(\\d{{12}})[.]parquet$', 1) DESC
  LIMIT 1
)
"""
_STATE = """
SELECT
  CAST(entry.key AS BIGINT) AS partition,
  entry.value AS next_offset,
  coalesce(event_counts[entry.key], 0) AS event_count,
  published_at[entry.key] AS newest_published_at,
  greatest(0, epoch(now()) - epoch(newest_published_at)) AS lag_seconds
FROM (SELECT unnest(map_entries(offsets)) AS entry, event_counts, published_at FROM internal.lake_stream_facts)
"""
_RUNS = """
SELECT *, event_count / nullif(epoch(kept_at) - epoch(began_at), 0) AS events_per_second
FROM (SELECT unnest(runs, recursive := true) FROM internal.lake_stream_facts)
"""


def live_views(folder: str, *, is_mixed: bool = False) -> Iterator[tuple[str, str]]:
    """The views over a folder of the stream by their names, in the order in which they build on one another.

    Args:
        folder: Absolute; it has a file (see `prepare_folder`).
        is_mixed: Files of it lack columns that are declared today, so each one is opened for its columns.
    """
    found = {"files": quoted(f"{folder}/**/*.parquet"), "folder": quoted(folder), "mixed": str(is_mixed).lower()}
    candidates = statement(
        "state/candidates", changes="internal.live_events", base="internal.bases", more=", filename, file_row_number"
    )
    counts = ", ".join(f'"{one.name}": "BIGINT"' for one in STREAM_RUNS if one.name.endswith("_count"))
    narrow = column_list(EVENTS.narrow)
    texts = {
        "live_window": _WINDOW,
        "lake_live_files": _FILES,
        "lake_live_rows": _ROWS,
        "live_events": _EVENTS,
        "live_states": _STATES.replace("{title_key}", FORMULAS["title_key"]).replace("{candidates}", candidates),
        "settled_states": _SETTLED,
        "lake_live_changes": f"SELECT {column_list(EVENTS)} FROM internal.lake_live_rows "  # noqa: S608  our own names
        "SEMI JOIN internal.live_events USING (filename, file_row_number)",
        "lake_changes_live": (
            f"SELECT {narrow} FROM main.article_changes "  # noqa: S608
            f"UNION ALL SELECT {narrow} FROM internal.lake_live_changes"
        ),
        "lake_stream_facts": _FACTS.format(counts=counts, key=METADATA_KEY, files="{files}"),
        "lake_stream_state": _STATE,
        "lake_stream_runs": _RUNS,
        "lake_articles_live": statement("views/articles_live", columns=column_list(ARTICLES), age=_AGE),
    }
    for name, text in texts.items():
        for place, value in found.items():
            text = text.replace(f"{{{place}}}", value)  # noqa: PLW2901
        yield name, text


def prepare_folder(folder: Path) -> bool:
    """Make a folder of the stream readable by the views; returns whether files of it lack declared columns.

    A file that cannot be read is renamed, because the views would fail on it. A folder without files gets one without
    rows.
    """
    wanted, is_mixed = set(EVENTS.schema.names), False
    for path in sorted(folder.glob("*/*/*.parquet")):
        try:
            is_mixed |= not wanted <= set(read_footer(path).schema.to_arrow_schema().names)
        except UNREADABLE as error:
            if is_damage(error):
                aside = set_aside(path)
                _log.warning(
                    "The file %s of the stream cannot be read (%s). It is renamed to %s. Its events are missing until "
                    "the stream or the files of their hours bring them again.",
                    *(path, error, aside.name),
                )
    empty = folder / _EMPTY
    try:
        found = pq.read_schema(empty).equals(EVENTS.schema)
    except UNREADABLE:
        found = False
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = empty.with_suffix(".tmp")
        pq.write_table(EVENTS.schema.empty_table(), temporary)
        files.put(temporary, empty)
    return is_mixed


def live_folder(lake_root: Path) -> Path:
    """The folder of the stream below a lake, absolute."""
    return lake_root.resolve() / LIVE_CHANGES
