-- What keeps only rows of files that were taken in, of projects that no pending snapshot will change.
SEMI JOIN (
  SELECT source_at, project_id, namespace_id
  FROM loads
  WHERE table_name = $table AND applied_at IS NOT NULL AND list_contains($hours, batch_hour)
) AS file USING (source_at, project_id, namespace_id)
ANTI JOIN (SELECT project_id FROM snapshots WHERE applied_at IS NULL) AS pending USING (project_id)
