-- Parts that were loaded again meanwhile, or dropped.
INSERT INTO internal.hidden_rows
SELECT new.lake_path, NULL, if(loaded.table_name IS NULL, 'dropped', 'reloaded'), part.batch_hour, part.project_id, part.namespace_id
FROM compacting AS part
LEFT JOIN (FROM loads WHERE table_name = $table) AS loaded USING (batch_hour, project_id, namespace_id)
CROSS JOIN (SELECT unnest(CAST($paths AS VARCHAR[])) AS lake_path) AS new
WHERE part.row_count > 0 AND loaded.compaction_id IS DISTINCT FROM $compaction_id
