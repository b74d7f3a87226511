-- The page is found among the narrow rows first; what is left of the lake then is the one file that can have it.
CREATE MACRO main.article_text(project, title) AS TABLE
SELECT page.project_id, page.article_id, page.name, page.version_id, page.event_at, body.wikitext, body.html
FROM find_article(project, title) AS page
LEFT JOIN article_bodies AS body USING (project_id, article_id, version_id, source_at)
