INSERT INTO hours
WITH last AS (
  SELECT greatest(max(batch_hour), $until) AS batch_hour FROM hours
),
pairs AS (
  FROM beginnings WHERE list_contains($projects, project_id) AND list_contains($namespaces, namespace_id)
),
wanted AS (
  SELECT unnest(generate_series(first_hour, last.batch_hour, INTERVAL 1 HOUR)) AS batch_hour, project_id, namespace_id
  FROM pairs, last
)
SELECT
  batch_hour,
  project_id,
  namespace_id,
  CASE WHEN batch_hour < $kept_from THEN 'past_retention' ELSE 'missing' END,
  NULL,
  NULL,
  NULL,
  $now,
  CASE WHEN batch_hour < $kept_from THEN $past_reason ELSE $missing_reason END
FROM wanted
ANTI JOIN hours USING (batch_hour, project_id, namespace_id)
