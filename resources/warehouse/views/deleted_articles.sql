-- A move sends the same event for the title it leaves, but its page lives on under the other; so does a page that was restored.
CREATE VIEW main.deleted_articles AS
SELECT project_id, namespace_id, article_id, replace(name, '_', ' ') AS name, version_id, event_at AS deleted_at, event_id
FROM article_changes
ANTI JOIN articles USING (project_id, article_id)
WHERE change_type = 'delete'
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id, name) = 1
ORDER BY deleted_at DESC, project_id, article_id
