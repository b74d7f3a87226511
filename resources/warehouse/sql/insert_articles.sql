INSERT INTO articles BY NAME
SELECT {columns}
FROM article_changes AS change
SEMI JOIN deciding ON
  change.batch_hour = deciding.batch_hour
  AND change.project_id = deciding.project_id
  AND change.namespace_id = deciding.namespace_id
  AND change.article_id = deciding.article_id
  AND change.version_id = deciding.version_id
  AND change.event_at = deciding.event_at
  AND change.event_key = deciding.event_key
  AND replace(change.name, '_', ' ') = deciding.title
WHERE change.change_type = 'update'
