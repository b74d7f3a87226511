-- Each revision counts once: an edit can be in two hourly files.
SELECT
  project_id,
  arg_max(name, (event_at, version_id)) AS name,
  arg_max(url, (event_at, version_id)) AS url,
  count(DISTINCT version_id) AS edit_count,
  count(DISTINCT editor_name) AS editor_count,
  max(event_at) AS last_edit_at
FROM article_changes
WHERE change_type = 'update' AND batch_hour >= $1
GROUP BY project_id, article_id
ORDER BY edit_count DESC, last_edit_at DESC, project_id, article_id
LIMIT $2
