-- The mirror of a project and namespace begins with its first hour that had a file, or with the hour that the boundary of the
-- newest snapshot lies in, whichever is earlier. What was only asked for, or not named by the service's list, moves nothing.
SELECT project_id, namespace_id, min(hour) AS first_hour
FROM (
  SELECT project_id, namespace_id, batch_hour AS hour FROM hours WHERE state IN ('loaded', 'empty')
  UNION ALL
  SELECT project_id, namespace_id, time_bucket(INTERVAL 1 HOUR, max(boundary_at)) FROM snapshots GROUP BY ALL
)
GROUP BY ALL
