-- Hours, snapshot versions and lookups whose rows are in the given lake files.
WITH file AS (SELECT DISTINCT unnest(CAST($paths AS VARCHAR[])) AS lake_path),
part AS (
  SELECT lake_path, table_name, batch_hour, source_at, project_id, namespace_id
  FROM loads JOIN file USING (lake_path)
  WHERE compaction_id IS NULL
  UNION ALL
  SELECT compacted.lake_path, table_name, loads.batch_hour, loads.source_at, loads.project_id, loads.namespace_id
  FROM compacted_files AS compacted
  JOIN file ON file.lake_path = compacted.lake_path
  JOIN loads USING (table_name, compaction_id)
  WHERE loads.project_id BETWEEN compacted.first_project_id AND compacted.last_project_id
)
SELECT DISTINCT part.lake_path, table_name, batch_hour, source_at, project_id, namespace_id, snapshot_id, snapshot_version
FROM part
LEFT JOIN (SELECT table_name, source_at, project_id, namespace_id, snapshot_id, snapshot_version FROM snapshots) AS snapshots
  USING (table_name, source_at, project_id, namespace_id)
ORDER BY ALL DESC
