-- An hour is covered when it is loaded, empty or absent. A gap is the first hour of a pair that is not, whether its row
-- says so or there is no row; hours at the end that the service has not published yet are no gap.
CREATE VIEW project_state AS
WITH covered AS (
  SELECT
    project_id,
    namespace_id,
    batch_hour,
    lead(batch_hour) OVER (PARTITION BY project_id, namespace_id ORDER BY batch_hour) AS next_covered
  FROM hours
  WHERE state IN ('loaded', 'empty', 'absent')
),
bounds AS (
  SELECT project_id, namespace_id, min(batch_hour) AS first_hour, max(batch_hour) AS last_hour
  FROM hours
  WHERE state <> 'not_yet'
  GROUP BY ALL
),
runs AS (
  SELECT
    project_id,
    namespace_id,
    min(batch_hour) AS first_covered,
    min(batch_hour) FILTER (WHERE next_covered IS DISTINCT FROM batch_hour + INTERVAL 1 HOUR) AS run_end
  FROM covered
  GROUP BY ALL
)
SELECT
  project_id,
  namespace_id,
  CAST(NULL AS VARCHAR) AS base_snapshot,
  CAST(NULL AS TIMESTAMPTZ) AS base_boundary_at,
  CASE
    WHEN first_covered IS NULL OR first_covered > first_hour THEN first_hour
    WHEN run_end < last_hour THEN run_end + INTERVAL 1 HOUR
  END AS first_gap_at,
  first_covered AS exact_from_at,
  run_end + INTERVAL 1 HOUR AS exact_until_at
FROM (SELECT DISTINCT project_id, namespace_id FROM hours)
LEFT JOIN bounds USING (project_id, namespace_id)
LEFT JOIN runs USING (project_id, namespace_id)
