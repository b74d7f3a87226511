-- Of each project and namespace of a dataset: its first hour (that the mirror began with; else the first that was asked for), whether
-- that had a file or is a snapshot's, its last hour, the newest of which nothing more is to come, and the gaps up to an hour.
SELECT
  project_id,
  namespace_id,
  coalesce(first_hour, min(batch_hour)),
  first_hour IS NOT NULL,
  max(batch_hour) FILTER (WHERE state IN ({covered})),
  count(*) FILTER (WHERE is_gap),
  min(batch_hour) FILTER (WHERE is_gap)
FROM (
  SELECT *, batch_hour >= coalesce(first_hour, batch_hour) AND batch_hour < $since AND state NOT IN ({covered}) AS is_gap
  FROM hours
  LEFT JOIN (
{beginnings}) AS begun USING (table_name, project_id, namespace_id)
  WHERE table_name = $table
)
GROUP BY project_id, namespace_id, first_hour
