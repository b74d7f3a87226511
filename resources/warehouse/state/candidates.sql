SELECT
  change.project_id,
  replace(change.name, '_', ' ') AS title,
  change.article_id,
  change.event_at,
  change.version_id,
  change.change_type = 'update' AS is_update,
  change.event_key,
  change.batch_hour AS source_at,
  change.namespace_id{more}
FROM {changes} AS change
LEFT JOIN {base} AS base
  ON change.project_id = base.project_id AND change.namespace_id = base.namespace_id
WHERE change.change_type = 'delete'
  OR (change.change_type = 'update' AND (base.boundary_at IS NULL OR change.event_at >= base.boundary_at))
