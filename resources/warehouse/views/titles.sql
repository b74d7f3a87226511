-- A title of a page wins over a redirect of that name; of two pages that claim a redirect, both are told.
CREATE VIEW main.titles AS
SELECT project_id, replace(name, '_', ' ') AS title, article_id, name, false AS is_redirect
FROM articles
UNION ALL
SELECT DISTINCT redirects.project_id, replace(redirect_name, '_', ' ') AS title, redirects.article_id, redirects.name, true AS is_redirect
FROM redirects
ANTI JOIN articles AS page
  ON page.project_id = redirects.project_id AND replace(page.name, '_', ' ') = replace(redirects.redirect_name, '_', ' ')
