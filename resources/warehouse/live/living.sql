-- Which of the events a page lives by now, and which of a page's and revision's is the one that has its bodies. One thing after the other, as each
-- takes memory.
CREATE OR REPLACE TEMP TABLE live_living AS
SELECT change.file_row
FROM live_changes AS change
JOIN deciding AS page ON
  change.project_id = page.project_id
  AND change.article_id = page.article_id
  AND change.namespace_id = page.namespace_id
  AND change.batch_hour = page.source_at
  AND change.version_id = page.version_id
  AND change.event_at = page.event_at
  AND change.event_key = page.event_key
WHERE change.change_type = 'update';

CREATE OR REPLACE TEMP TABLE live_bodies AS
SELECT
  file_row,
  row_number() OVER (
    PARTITION BY batch_hour, project_id, article_id, version_id
    ORDER BY change_type = 'update' DESC, event_at DESC, event_key DESC, namespace_id
  ) = 1 AS has_body
FROM live_changes;

CREATE OR REPLACE TEMP TABLE live_events AS
SELECT file_row, living.file_row IS NOT NULL AS is_living, has_body
FROM live_bodies
LEFT JOIN live_living AS living USING (file_row)
