CREATE MACRO main.page_sections(project, title) AS TABLE
SELECT position, level, heading, text, link_count, citation_count
FROM sections
WHERE project_id = project AND name = replace(title, '_', ' ')
ORDER BY position
