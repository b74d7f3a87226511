INSERT INTO hours BY NAME
WITH last AS (
  SELECT greatest(max(batch_hour), $until) AS batch_hour FROM hours WHERE table_name = $table
),
pairs AS (
  FROM beginnings
  WHERE table_name = $table AND list_contains($projects, project_id) AND list_contains($namespaces, namespace_id)
),
wanted AS (
  SELECT table_name, unnest(generate_series(first_hour, last.batch_hour, INTERVAL 1 HOUR)) AS batch_hour, project_id, namespace_id
  FROM pairs, last
)
SELECT
  *,
  CASE WHEN batch_hour < $kept_from THEN 'past_retention' ELSE 'missing' END AS state,
  $now AS checked_at,
  CASE WHEN batch_hour < $kept_from THEN $past_reason ELSE $missing_reason END AS reason
FROM wanted
ANTI JOIN hours USING (table_name, batch_hour, project_id, namespace_id)
