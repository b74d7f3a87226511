INSERT INTO hours
WITH last AS (
  SELECT greatest(max(batch_hour), $until) AS batch_hour FROM hours
),
-- with a snapshot underneath, hours are wanted from the one on that its boundary lies in
known AS (
  SELECT project_id, namespace_id, batch_hour FROM hours
  UNION ALL
  SELECT project_id, namespace_id, time_bucket(INTERVAL 1 HOUR, max(boundary_at)) FROM snapshots GROUP BY ALL
),
pairs AS (
  SELECT project_id, namespace_id, min(batch_hour) AS first_hour
  FROM known
  WHERE list_contains($projects, project_id) AND list_contains($namespaces, namespace_id)
  GROUP BY ALL
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
