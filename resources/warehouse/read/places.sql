-- For each project and namespace of a dataset: the first hour of the mirror (else the first requested one), the newest
-- hour with a final state, and the number and first of the gaps before an hour.
SELECT
  project_id,
  namespace_id,
  coalesce(first_hour, min(batch_hour)),
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
