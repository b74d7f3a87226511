INSERT INTO hours BY NAME
WITH last AS (
  SELECT max(batch_hour) AS batch_hour FROM hours WHERE table_name = $table
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
-- name: cover
-- Hours of the files that were just loaded. Content that differs from the previous load increments load_count.
CREATE OR REPLACE TEMP TABLE covered AS
SELECT
  table_name,
  batch_hour,
  project_id,
  namespace_id,
  CASE WHEN incoming.row_count + incoming.reject_count > 0 THEN 'loaded' ELSE 'empty' END AS state,
  incoming.row_count - incoming.duplicate_count AS row_count,
  incoming.reject_count,
  greatest(coalesce(hours.load_count, 0) + CAST(redone AS INTEGER), 1) AS load_count,
  loaded_at AS checked_at
FROM incoming
LEFT JOIN hours USING (table_name, batch_hour, project_id, namespace_id);

DELETE FROM hours USING covered
WHERE (hours.table_name, hours.batch_hour, hours.project_id, hours.namespace_id)
  = (covered.table_name, covered.batch_hour, covered.project_id, covered.namespace_id);

INSERT INTO hours BY NAME FROM covered
