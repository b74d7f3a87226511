CREATE VIEW main.newest_articles AS
SELECT project_id, namespace_id, article_id, name, created_at, event_at, editor_name, size_bytes, abstract, url
FROM articles
WHERE created_at IS NOT NULL
ORDER BY created_at DESC, project_id, article_id
