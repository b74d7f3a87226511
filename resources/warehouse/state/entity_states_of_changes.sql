-- Changes that can decide: deletes, and updates that are not older than the base snapshot.
SELECT
  change.project_id,
  change.namespace_id,
  change.entity_id,
  change.event_at,
  change.version_id,
  change.change_type = 'update' AS is_update,
  change.event_id,
  change.batch_hour AS source_at
FROM entity_changes AS change
LEFT JOIN ({base}) AS base ON change.project_id = base.project_id AND change.namespace_id = base.namespace_id
WHERE (
  change.change_type = 'delete'
  OR (change.change_type = 'update' AND (base.boundary_at IS NULL OR change.event_at >= base.boundary_at))
){known_changes}
