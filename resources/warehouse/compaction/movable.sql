-- The hours before a moment whose changes are in the build file, with the rows that compacted files have as well. An hour waits for
-- `articles` to take it in.
SELECT
  batch_hour,
  CAST(coalesce(sum(row_count - duplicate_count) FILTER (WHERE compaction_id IS NOT NULL), 0) AS BIGINT) AS row_count,
  coalesce(list(DISTINCT compaction_id) FILTER (WHERE compaction_id IS NOT NULL), []) AS compaction_ids,
  bool_or(compaction_id IS NOT NULL AND applied_at IS NULL) AS is_pending
FROM loads
WHERE table_name = $table AND batch_hour < $before AND batch_hour >= coalesce((SELECT first_hour FROM internal.hot_window), batch_hour)
GROUP BY batch_hour
ORDER BY batch_hour
