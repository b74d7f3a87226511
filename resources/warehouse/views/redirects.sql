CREATE OR REPLACE VIEW main.redirects AS
SELECT project_id, redirect.name AS redirect_name, redirect.url AS redirect_url, article_id, name
FROM (SELECT project_id, article_id, name, unnest(redirects) AS redirect FROM articles)
WHERE redirect.name IS NOT NULL
