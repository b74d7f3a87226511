CREATE VIEW main.breaking_news AS
SELECT project_id, namespace_id, article_id, name, event_at, abstract, url
FROM articles
WHERE is_breaking_news
ORDER BY event_at DESC, project_id, article_id
