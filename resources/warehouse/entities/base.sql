SELECT project_id, namespace_id, snapshot_id, snapshot_version, boundary_at, source_at
FROM snapshots
WHERE table_name = 'snapshot_entities'{known_snapshots}
QUALIFY row_number() OVER (
  PARTITION BY project_id, namespace_id
  ORDER BY boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC
) = 1
