-- Titles differ in case: where only another spelling of the title exists, that is said.
CREATE MACRO main.find_article(project, title) AS TABLE
SELECT {columns}
FROM articles
WHERE project_id = project
  AND (
    replace(name, '_', ' ') = replace(title, '_', ' ')
    OR (
      list_contains(list_transform(redirects, lambda entry: replace(entry.name, '_', ' ')), replace(title, '_', ' '))
      AND NOT EXISTS (
        FROM articles AS page WHERE page.project_id = project AND replace(page.name, '_', ' ') = replace(title, '_', ' ')
      )
    )
  )
UNION ALL BY NAME
SELECT {complaints}
FROM (
{unmirrored}  UNION ALL
{other_spelling})
WHERE complaint IS NOT NULL
