-- Hours of which nothing more is to come, with their file if they have one, and how they were compared before.
SELECT
  batch_hour,
  project_id,
  namespace_id,
  loads.lake_path,
  loads.digest,
  before.compared_from,
  before.compared_until,
  before.digest IS NOT DISTINCT FROM loads.digest
    AND (
      before.only_in_stream_count + before.only_in_file_count + before.different_count = 0
      -- where they differ, the stream may still bring what was late, for a while
      OR $now >= batch_hour + {late}
    ) AS is_settled
FROM hours
LEFT JOIN loads USING (table_name, batch_hour, project_id, namespace_id)
LEFT JOIN stream_comparisons AS before USING (batch_hour, project_id, namespace_id)
WHERE table_name = 'article_changes' AND state IN ({covered}) AND batch_hour >= $earliest
ORDER BY batch_hour, project_id, namespace_id
