"""Short queries of the report's page. Longer ones are in `resources/warehouse/read/page`."""

# From when on hours are here, and from when until when files were loaded.
SPAN = """
SELECT
  (SELECT min(batch_hour) FROM hours WHERE table_name = 'article_changes' AND state IN ('loaded', 'empty')),
  (SELECT max(batch_hour) FROM hours WHERE table_name = 'article_changes' AND state IN ('loaded', 'empty')),
  (SELECT min(loaded_at) FROM loads),
  (SELECT max(loaded_at) FROM loads)
"""
# What was loaded when, of the files that are in the warehouse now.
LOADED = """
SELECT
  time_bucket(CAST($1 AS INTERVAL), loaded_at) AS span_at,
  count(*) AS file_count,
  CAST(sum(ndjson_bytes) AS BIGINT),
  CAST(sum(archive_bytes) AS BIGINT),
  CAST(sum(lake_bytes) AS BIGINT)
FROM loads
GROUP BY ALL
ORDER BY ALL
"""
# Titles that went: by a deletion, or by a move, whose event is also the update of the title that the page has now.
GONE = """
SELECT
  project_id,
  name,
  (project_id, event_id) IN (
    SELECT (project_id, event_id) FROM article_changes
    WHERE batch_hour >= $1 AND change_type = 'update' AND event_id IS NOT NULL
  ) IS TRUE AS is_move,
  min(event_at) AS event_at
FROM article_changes
WHERE batch_hour >= $1 AND change_type = 'delete'
GROUP BY project_id, event_id, name
"""
GONE_SPANS = """
SELECT time_bucket(CAST($2 AS INTERVAL), event_at) AS span_at,
  count(*) FILTER (WHERE NOT is_move), count(*) FILTER (WHERE is_move)
FROM ({gone})
GROUP BY ALL
ORDER BY ALL
"""
GONE_NEWEST = """
SELECT project_id, name, is_move, event_at
FROM ({gone})
ORDER BY event_at DESC, project_id, name
LIMIT $2
"""
REASONS = """
SELECT reason, count(*) AS line_count, count(DISTINCT project_id) AS project_count, max(batch_hour) AS newest_hour
FROM rejects
GROUP BY reason
ORDER BY line_count DESC, reason
LIMIT $1
"""
# What costs quota, as far as it was loaded: each lookup and each file of a snapshot a unit.
UNITS = """
SELECT span_at, CAST(sum(lookup_count) AS BIGINT), CAST(sum(file_count) AS BIGINT)
FROM (
  SELECT time_bucket(CAST($1 AS INTERVAL), looked_up_at) AS span_at, count(*) AS lookup_count, 0 AS file_count
  FROM lookups GROUP BY ALL
  UNION ALL
  SELECT time_bucket(CAST($1 AS INTERVAL), loaded_at), 0, sum(file_count) FROM snapshots GROUP BY ALL
)
GROUP BY span_at
ORDER BY span_at
"""
