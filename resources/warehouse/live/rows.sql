-- What the views read: the events, which of them a page lives by now, which of a page's and revision's is the one that has its bodies, and where
-- these are; and the pages whose row of before counts no longer.
SELECT {columns}, told.*
FROM (
  SELECT
    true AS is_change,
    page.article_id IS NOT NULL AND change.change_type = 'update' AS is_living,
    row_number() OVER (
      PARTITION BY change.batch_hour, change.project_id, change.article_id, change.version_id
      ORDER BY change.change_type = 'update' DESC, change.event_at DESC, change.event_key DESC, change.namespace_id
    ) = 1 AS has_body,
    {paths}[change.file_row // {rows_of_a_file}] AS lake_file,
    change.file_row % {rows_of_a_file} AS lake_row,
    false AS is_left
  FROM article_changes AS change
  SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
  LEFT JOIN (
    SELECT project_id, article_id, namespace_id, source_at, version_id, event_at, event_key
    FROM articles
    WHERE source_at >= {since}
  ) AS page ON
    change.project_id = page.project_id
    AND change.article_id = page.article_id
    AND change.namespace_id = page.namespace_id
    AND change.batch_hour = page.source_at
    AND change.version_id = page.version_id
    AND change.event_at = page.event_at
    AND change.event_key = page.event_key
) AS told
JOIN {events} AS event ON event.filename = told.lake_file AND event.file_row_number = told.lake_row
UNION ALL BY NAME
SELECT project_id, article_id, false AS is_change, false AS is_living, false AS has_body, true AS is_left
FROM live_left
