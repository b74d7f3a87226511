CREATE MACRO main.page_links(project, title) AS TABLE
SELECT origin, position, url, text
FROM article_links
WHERE project_id = project AND name = replace(title, '_', ' ')
ORDER BY list_position(['infobox', 'section', 'reference'], origin), position
