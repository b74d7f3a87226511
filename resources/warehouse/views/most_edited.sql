CREATE VIEW main.most_edited AS
SELECT
  project_id,
  namespace_id,
  article_id,
  arg_max(name, (event_at, version_id)) AS name,
  count(*) AS edit_count,
  count(DISTINCT editor_name) AS editor_count,
  count(*) FILTER (WHERE editor_is_bot) AS bot_count,
  min(event_at) AS first_edit_at,
  max(event_at) AS last_edit_at
FROM (
  SELECT DISTINCT ON (project_id, article_id, version_id) project_id, namespace_id, article_id, version_id, name, event_at, editor_name, editor_is_bot
  FROM article_changes
  WHERE change_type = 'update'
  ORDER BY event_at
)
GROUP BY project_id, namespace_id, article_id
ORDER BY edit_count DESC, last_edit_at DESC, project_id, article_id
