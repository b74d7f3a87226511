-- The versions of snapshots whose rows are in the files of their archives, the one loaded last first.
SELECT snapshot_id, snapshot_version, count(*) AS file_count, CAST(sum(lake_bytes) AS BIGINT) AS lake_bytes
FROM (SELECT * EXCLUDE (row_count, duplicate_count, applied_at) FROM snapshots) AS version
JOIN (SELECT * EXCLUDE (loaded_at) FROM loads WHERE row_count > 0 AND compaction_id IS NULL) AS file
  USING (table_name, source_at, project_id, namespace_id)
WHERE table_name = $table
GROUP BY ALL
ORDER BY any_value(loaded_at) DESC, snapshot_id, snapshot_version
