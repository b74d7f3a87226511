-- First mirrored hour of each dataset, project and namespace: its first hour with a file. For articles it is the hour
-- of the newest snapshot's boundary if that is earlier. Hours that were only requested, or that the batch listing does
-- not name, do not count.
SELECT table_name, project_id, namespace_id, min(hour) AS first_hour
FROM (
  SELECT table_name, project_id, namespace_id, batch_hour AS hour FROM hours WHERE state IN ('loaded', 'empty')
  UNION ALL
  SELECT 'article_changes' AS table_name, project_id, namespace_id, time_bucket(INTERVAL 1 HOUR, max(boundary_at)) AS hour
  FROM snapshots
  WHERE table_name = 'snapshot_articles'
  GROUP BY ALL
)
GROUP BY ALL
