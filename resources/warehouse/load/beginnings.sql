-- What is mirrored of a dataset in a project and namespace begins with its first hour that had a file; for the articles with the
-- hour that the boundary of the newest snapshot lies in, where that is earlier. What was only asked for, or not named by the
-- service's list, moves nothing.
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
