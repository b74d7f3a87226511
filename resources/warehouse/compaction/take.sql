-- What is in no window and not yet in `articles` keeps its rows and its file until it is.
UPDATE loads
SET compaction_id = $compaction_id
FROM compacting AS part
WHERE loads.table_name = $table
  AND loads.batch_hour = part.batch_hour
  AND loads.project_id = part.project_id
  AND loads.namespace_id = part.namespace_id
  AND loads.digest = part.digest
  AND loads.compaction_id IS NOT DISTINCT FROM part.compaction_id
  AND (loads.compaction_id IS NOT NULL OR loads.applied_at IS NOT NULL OR loads.batch_hour >= $window)
