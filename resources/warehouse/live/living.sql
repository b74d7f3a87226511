-- Which of the events a page lives by now, and which of a page's and revision's is the one that has its bodies.
CREATE OR REPLACE TEMP TABLE live_events AS
SELECT
  change.file_row,
  page.article_id IS NOT NULL AND change.change_type = 'update' AS is_living,
  row_number() OVER (
    PARTITION BY change.batch_hour, change.project_id, change.article_id, change.version_id
    ORDER BY change.change_type = 'update' DESC, change.event_at DESC, change.event_key DESC, change.namespace_id
  ) = 1 AS has_body
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
