CREATE VIEW main.likely_reverted AS
SELECT project_id, namespace_id, article_id, version_id, name, event_at, revertrisk_probability, editor_name, editor_is_anonymous,
  version_comment, url
FROM distinct_changes
WHERE change_type = 'update' AND revertrisk_prediction
ORDER BY revertrisk_probability DESC, event_at DESC, project_id, article_id
