-- The hours of the files that have events and no file of their own so far.
INSERT INTO live_hours
SELECT DISTINCT batch_hour, project_id, namespace_id
FROM read_parquet($paths, hive_partitioning := false)
ANTI JOIN (
  SELECT batch_hour, project_id, namespace_id FROM hours WHERE table_name = 'article_changes' AND state IN ({covered})
) AS covered USING (batch_hour, project_id, namespace_id)
WHERE batch_hour >= $since
