-- The settled pages that no newer event replaces, and the events that decide pages now. An event replaces the page with
-- its title, and an update replaces its own page under any title. This is the rule of `articles`: the deciding row of a
-- page is the newest one of its title and of its page. Settled pages are found by short keys, because only a few of
-- them have an event. Planning takes longer than execution, so each view is named once. `decided` has the settled pages
-- that are replaced, and the events that decide. Of all others, settled pages are shown and events are not.
SELECT {columns}
FROM (
  SELECT {columns}, rowid AS place, '' AS filename FROM internal.articles
  UNION ALL
  SELECT {columns}, file_row_number, filename FROM (SELECT *, batch_hour AS source_at FROM internal.lake_live_rows)
) AS known
LEFT JOIN (
  WITH event AS MATERIALIZED (FROM internal.live_states),
  same_title AS MATERIALIZED (FROM internal.settled_states SEMI JOIN event USING (title_key)),
  same_page AS MATERIALIZED (FROM internal.settled_states SEMI JOIN event USING (article_id)),
  newest_of_title AS (
    SELECT project_id, title, max(age) AS age
    FROM (
      SELECT project_id, title, age FROM event
      UNION ALL
      SELECT project_id, title, age FROM same_title
      UNION ALL
      SELECT project_id, title, {age} FROM internal.titles
    )
    GROUP BY project_id, title
  ),
  newest_of_page AS (
    SELECT project_id, article_id, max(age) AS age
    FROM (
      SELECT project_id, article_id, age FROM event WHERE is_update
      UNION ALL
      SELECT project_id, article_id, age FROM same_page
      UNION ALL
      SELECT project_id, article_id, {age} FROM internal.pages
    )
    GROUP BY project_id, article_id
  )
  SELECT DISTINCT place, '' AS filename, false AS is_living
  FROM (
    SELECT place FROM same_title JOIN event USING (project_id, title) WHERE event.age > same_title.age
    UNION ALL
    SELECT place FROM same_page JOIN event USING (project_id, article_id)
    WHERE event.is_update AND event.age > same_page.age
  )
  UNION ALL
  SELECT file_row_number, filename, true
  FROM event
  SEMI JOIN newest_of_title USING (project_id, title, age)
  SEMI JOIN newest_of_page USING (project_id, article_id, age)
  WHERE is_update
) AS decided ON known.place = decided.place AND known.filename = decided.filename
WHERE coalesce(is_living, known.filename = '')
-- name: live_files
-- A merged file counts one minute after its creation, because a query lists the files several times and must not find
-- it in only some of the lists. The original files stay for an hour. A slow clock may have put events into the folder
-- of the previous hour.
SELECT filename
FROM (
  SELECT *, lead(first_step) OVER of_steps >= first_step AND last_modified > now() - INTERVAL 1 MINUTE AS is_new
  FROM (
    SELECT
      filename,
      last_modified,
      regexp_extract(filename, '(\d{12})(-\d{12})?[.]parquet$', 1) AS first_step,
      regexp_extract(filename, '(\d{12})[.]parquet$', 1) AS last_step
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

-- name: live_window
-- The first hour that can lack a file. The service no longer provides files more than two days older than the ledger's
-- newest hour.
SELECT coalesce(min(batch_hour), TIMESTAMPTZ '2001-01-01 00:00:00+00') AS first_hour
FROM (SELECT DISTINCT project_id, namespace_id FROM main.hours WHERE table_name = 'article_changes')
CROSS JOIN (
  SELECT unnest(
    generate_series(max(batch_hour) - INTERVAL 48 HOUR, max(batch_hour) + INTERVAL 1 HOUR, INTERVAL 1 HOUR)
  ) AS batch_hour
  FROM main.hours
  WHERE table_name = 'article_changes'
)
ANTI JOIN (
  SELECT batch_hour, project_id, namespace_id
  FROM main.hours
  WHERE table_name = 'article_changes' AND state IN ({covered})
) AS covered USING (batch_hour, project_id, namespace_id)

-- name: live_rows
SELECT *
FROM read_parquet({files}, hive_partitioning = false, filename = true, file_row_number = true, union_by_name = {mixed})
SEMI JOIN internal.lake_live_files USING (filename)

-- name: live_events
-- Events of hours without a file. An hourly file also contains each pair of event and title only once.
SELECT
  batch_hour, project_id, namespace_id, article_id, name, event_at, version_id, change_type,
  md5_number_lower(concat(event_id, chr(10), replace(name, '_', ' '))) AS event_key,
  filename, file_row_number
FROM internal.lake_live_rows
ANTI JOIN (
  SELECT batch_hour, project_id, namespace_id
  FROM main.hours
  WHERE table_name = 'article_changes' AND state IN ({covered})
) AS covered USING (batch_hour, project_id, namespace_id)
WHERE batch_hour >= (SELECT first_hour FROM internal.live_window)
QUALIFY row_number() OVER (
  PARTITION BY batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' ')
  ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, filename, file_row_number
) = 1

-- name: live_states
SELECT *, {title_key} AS title_key, {age} AS age FROM ({candidates})

-- name: settled_states
SELECT project_id, title, article_id, title_key, {age} AS age, place
FROM (SELECT *, rowid AS place, replace(name, '_', ' ') AS title, true AS is_update FROM internal.articles)

-- name: stream_facts
-- The newest file of the stream states the positions and the runs.
SELECT unnest(from_json(decode(value), '{
  "offsets": "MAP(VARCHAR, BIGINT)", "event_counts": "MAP(VARCHAR, BIGINT)",
  "published_at": "MAP(VARCHAR, TIMESTAMPTZ)",
  "runs": [{"began_at": "TIMESTAMPTZ", "kept_at": "TIMESTAMPTZ", {counts}}]
}'))
FROM (
  FROM parquet_kv_metadata({files})
  WHERE decode(CAST(key AS BLOB)) = '{key}'
  ORDER BY regexp_extract(file_name, '(\d{12})[.]parquet$', 1) DESC
  LIMIT 1
)

-- name: stream_state
SELECT
  CAST(entry.key AS BIGINT) AS partition,
  entry.value AS next_offset,
  coalesce(event_counts[entry.key], 0) AS event_count,
  published_at[entry.key] AS newest_published_at,
  greatest(0, epoch(now()) - epoch(newest_published_at)) AS lag_seconds
FROM (SELECT unnest(map_entries(offsets)) AS entry, event_counts, published_at FROM internal.lake_stream_facts)

-- name: stream_runs
SELECT *, event_count / nullif(epoch(kept_at) - epoch(began_at), 0) AS events_per_second
FROM (SELECT unnest(runs, recursive := true) FROM internal.lake_stream_facts)
