-- The files of a version with the places of the rows that are passed over, as long as it is not compacted.
WITH version AS (
  SELECT table_name, source_at, project_id, namespace_id
  FROM snapshots
  WHERE table_name = $table AND snapshot_id = $snapshot_id AND snapshot_version = $snapshot_version
),
shadow AS (
  SELECT file_name, list(file_row ORDER BY file_row) AS file_rows
  FROM internal.shadowed_snapshots
  WHERE snapshot_id = $snapshot_id AND snapshot_version = $snapshot_version
  GROUP BY file_name
)
SELECT lake_path, row_count, duplicate_count, coalesce(file_rows, []) AS file_rows, digest, source_at, project_id, namespace_id
FROM loads
SEMI JOIN version USING (table_name, source_at, project_id, namespace_id)
LEFT JOIN shadow ON parse_filename(lake_path) = file_name
WHERE compaction_id IS NULL
ORDER BY lake_path
