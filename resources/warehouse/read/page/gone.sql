-- Titles that went: by a deletion, or by a move, whose event is also the update of the title that the page has now.
SELECT
  project_id,
  name,
  (project_id, event_id) IN (
    SELECT (project_id, event_id) FROM article_changes WHERE batch_hour >= $1 AND change_type = 'update' AND event_id IS NOT NULL
  ) IS TRUE AS is_move,
  min(event_at) AS event_at
FROM article_changes
WHERE batch_hour >= $1 AND change_type = 'delete'
GROUP BY project_id, event_id, name
