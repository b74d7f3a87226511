CREATE VIEW main.article_categories AS
SELECT project_id, namespace_id, article_id, name, entry.name AS category_name, entry.url AS category_url
FROM (SELECT project_id, namespace_id, article_id, name, unnest(categories) AS entry FROM articles)
WHERE entry.name IS NOT NULL
