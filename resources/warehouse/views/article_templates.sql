CREATE VIEW main.article_templates AS
SELECT project_id, namespace_id, article_id, name, entry.name AS template_name, entry.url AS template_url
FROM (SELECT project_id, namespace_id, article_id, name, unnest(templates) AS entry FROM articles)
WHERE entry.name IS NOT NULL
