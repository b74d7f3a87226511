-- The files of a version that is not compacted, with the positions of their masked rows.
WITH version AS (
  SELECT table_name, source_at, project_id, namespace_id
  FROM snapshots
  WHERE table_name = $table AND snapshot_id = $snapshot_id AND snapshot_version = $snapshot_version
),
hidden AS (SELECT lake_path, list(file_row ORDER BY file_row) AS file_rows FROM internal.hidden_rows GROUP BY lake_path)
SELECT lake_path, row_count, duplicate_count, coalesce(file_rows, []) AS file_rows, digest, source_at, project_id, namespace_id
FROM loads
SEMI JOIN version USING (table_name, source_at, project_id, namespace_id)
LEFT JOIN hidden USING (lake_path)
WHERE compaction_id IS NULL
ORDER BY lake_path
