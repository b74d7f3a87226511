-- Of the hours that are given, what compacted files have and the build file has as well.
CREATE OR REPLACE TEMP TABLE leaving AS
SELECT batch_hour, project_id, namespace_id, row_count - duplicate_count AS row_count
FROM loads
WHERE table_name = $table AND compaction_id IS NOT NULL AND batch_hour >= $first AND batch_hour < $end
