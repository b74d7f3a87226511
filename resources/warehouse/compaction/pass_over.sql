-- What was loaded again meanwhile, or dropped.
INSERT INTO internal.superseded
SELECT new.lake_path, part.batch_hour, part.project_id, part.namespace_id
FROM compacting AS part
ANTI JOIN (FROM loads WHERE table_name = $table AND compaction_id = $compaction_id) AS loaded
  USING (batch_hour, project_id, namespace_id)
CROSS JOIN (SELECT unnest(CAST($paths AS VARCHAR[])) AS lake_path) AS new
WHERE part.row_count > 0
