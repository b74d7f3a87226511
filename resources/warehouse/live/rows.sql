-- What the views read: the events, which of them a page lives by now, which of a page's and revision's is the one that has its bodies, and where
-- these are; and the pages whose row of before counts no longer.
SELECT
  {columns},
  true AS is_change,
  page.article_id IS NOT NULL AND event.change_type = 'update' AS is_living,
  row_number() OVER (
    PARTITION BY event.batch_hour, event.project_id, event.article_id, event.version_id
    ORDER BY event.change_type = 'update' DESC, event.event_at DESC, event.event_key DESC, event.namespace_id
  ) = 1 AS has_body,
  {paths}[event.file_row // {rows_of_a_file}] AS lake_file,
  event.file_row % {rows_of_a_file} AS lake_row,
  false AS is_left
FROM article_changes AS event
SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
LEFT JOIN (
  SELECT project_id, article_id, namespace_id, source_at, version_id, event_at, event_key
  FROM articles
  WHERE source_at >= {since}
) AS page ON
  event.project_id = page.project_id
  AND event.article_id = page.article_id
  AND event.namespace_id = page.namespace_id
  AND event.batch_hour = page.source_at
  AND event.version_id = page.version_id
  AND event.event_at = page.event_at
  AND event.event_key = page.event_key
UNION ALL BY NAME
SELECT project_id, article_id, false AS is_change, false AS is_living, false AS has_body, true AS is_left
FROM live_left
