-- A number is a page id, a text a title. A title leads to every page that has had it, and to its deletes. Where only another
-- spelling of the title is known, that is said.
CREATE MACRO main.article_history(project, page) AS TABLE
WITH pages AS (
  SELECT DISTINCT article_id
  FROM (
    SELECT article_id, name FROM article_changes WHERE project_id = project
    UNION ALL
    SELECT article_id, name FROM articles WHERE project_id = project
    UNION ALL
    SELECT article_id, name FROM internal.snapshot_pages WHERE project_id = project
  )
  WHERE CASE
    WHEN typeof(page) = 'VARCHAR' THEN replace(name, '_', ' ') = replace(CAST(page AS VARCHAR), '_', ' ')
    ELSE article_id = TRY_CAST(page AS BIGINT)
  END
),
told AS (
  SELECT {columns}, false AS is_from_snapshot FROM {changes} WHERE project_id = project
  UNION ALL
  SELECT {columns}, true AS is_from_snapshot FROM internal.snapshot_pages WHERE project_id = project
)
SELECT {columns}
FROM (
  SELECT *
  FROM told
  SEMI JOIN pages USING (article_id)
  QUALIFY row_number() OVER (
    PARTITION BY {event}
    ORDER BY is_from_snapshot, source_at, namespace_id
  ) = 1
)
UNION ALL BY NAME
SELECT {complaints}
FROM (
{unmirrored}  UNION ALL
{other_spelling})
WHERE complaint IS NOT NULL
ORDER BY event_at, version_id, change_type, name
