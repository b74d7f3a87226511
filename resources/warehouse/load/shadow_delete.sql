-- What was noted of rows that are gone, in a compacted file that is gone, stays as it was: the file may be put back.
DELETE FROM internal.shadowed
WHERE batch_hour BETWEEN $first AND $last
  AND list_contains($projects, project_id)
  AND (batch_hour, project_id, namespace_id) NOT IN (
    SELECT (batch_hour, project_id, namespace_id)
    FROM loads
    WHERE table_name = 'article_changes' AND batch_hour < $cold_until AND list_contains(CAST($gone AS VARCHAR[]), compaction_id)
  )
