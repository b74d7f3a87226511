-- An hour is covered when it is loaded, empty or absent. A gap is the first hour of a pair that is not, whether its row
-- says so or there is no row; hours at the end that the service has not published yet are no gap. With a snapshot
-- underneath, hours count from the one that its boundary lies in; without one, from the first that had a file, and no moment is exact.
-- An older kept snapshot makes earlier moments exact, where the hours from its own boundary on lead up to the newest one without a break.
CREATE OR REPLACE VIEW main.project_state AS
WITH beginnings AS (
{beginnings}),
bases AS (
  SELECT project_id, namespace_id, snapshot_version, exported_at, boundary_at,
    time_bucket(INTERVAL 1 HOUR, boundary_at) AS boundary_hour
  FROM snapshots
  WHERE table_name = 'snapshot_articles'
),
base AS (
  FROM bases
  QUALIFY row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1
),
told AS (
  FROM hours WHERE table_name = 'article_changes'
),
known AS (
  SELECT told.project_id, told.namespace_id, batch_hour, state, boundary_hour, first_hour AS beginning
  FROM told
  LEFT JOIN base ON told.project_id = base.project_id AND told.namespace_id = base.namespace_id
  LEFT JOIN beginnings ON told.table_name = beginnings.table_name
    AND told.project_id = beginnings.project_id AND told.namespace_id = beginnings.namespace_id
),
covered AS (
  SELECT
    project_id,
    namespace_id,
    batch_hour,
    batch_hour - INTERVAL 1 HOUR
      * row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY batch_hour) AS run
  FROM known
  WHERE state IN ({covered}) AND (boundary_hour IS NOT NULL OR batch_hour >= beginning)
),
runs AS (
  SELECT project_id, namespace_id, min(batch_hour) AS run_start, max(batch_hour) AS run_end
  FROM covered
  GROUP BY project_id, namespace_id, run
),
bounds AS (
  SELECT
    project_id,
    namespace_id,
    min(batch_hour) FILTER (WHERE state NOT IN ({covered})) AS first_missing,
    max(batch_hour) AS last_hour
  FROM known
  WHERE state <> 'not_yet' AND batch_hour >= coalesce(boundary_hour, beginning, batch_hour)
  GROUP BY ALL
),
pairs AS (
  SELECT project_id, namespace_id FROM told UNION SELECT project_id, namespace_id FROM bases
),
-- The run that counts: the one that the base lies in, or without a base the first one.
counting AS (
  SELECT pairs.project_id, pairs.namespace_id, run_start, run_end
  FROM pairs
  LEFT JOIN base ON pairs.project_id = base.project_id AND pairs.namespace_id = base.namespace_id
  JOIN runs ON pairs.project_id = runs.project_id AND pairs.namespace_id = runs.namespace_id
    AND (boundary_hour IS NULL OR boundary_hour BETWEEN run_start AND run_end)
  QUALIFY row_number() OVER (PARTITION BY pairs.project_id, pairs.namespace_id ORDER BY run_start) = 1
),
exact_bases AS (
{exact_bases}),
exact AS (
  SELECT
    base.project_id,
    base.namespace_id,
    min(one.whole_from) AS exact_from_at,
    min(one.boundary_hour) AS exact_hour,
    greatest(any_value(run_end) + INTERVAL 1 HOUR, max(one.whole_from) FILTER (one.is_newest)) AS exact_until_at
  FROM base
  JOIN exact_bases AS one ON base.project_id = one.project_id AND base.namespace_id = one.namespace_id
  LEFT JOIN counting ON base.project_id = counting.project_id AND base.namespace_id = counting.namespace_id
  GROUP BY ALL
),
-- What the service's files leave open within the exact range: hours that a later listing may still name, and rejected records.
open AS (
  SELECT
    exact.project_id,
    exact.namespace_id,
    count(*) FILTER (state = 'absent' AND checked_at < batch_hour + INTERVAL {last_recheck_hours} HOUR) AS absent_count,
    sum(reject_count) AS reject_count
  FROM exact
  JOIN told ON exact.project_id = told.project_id AND exact.namespace_id = told.namespace_id
    AND batch_hour >= exact_hour AND batch_hour < exact_until_at
  GROUP BY ALL
),
rejected AS (
  SELECT one.project_id, one.namespace_id, sum(reject_count) AS reject_count
  FROM exact_bases AS one
  JOIN loads ON table_name = 'snapshot_articles'
    AND one.project_id = loads.project_id AND one.namespace_id = loads.namespace_id AND one.source_at = loads.source_at
  GROUP BY ALL
),
-- What a lost hour may have changed is certain again by a later change of the page, or by a lookup.
lost AS (
  SELECT project_id, namespace_id, max(batch_hour) + INTERVAL 1 HOUR AS lost_until
  FROM known
  WHERE state = 'past_retention' AND batch_hour >= coalesce(boundary_hour, beginning, batch_hour)
  GROUP BY ALL
),
uncertain AS (
  SELECT page.project_id, page.namespace_id, count(*) AS uncertain_count
  FROM articles AS page
  JOIN lost ON page.project_id = lost.project_id AND page.namespace_id = lost.namespace_id AND page.event_at < lost_until
  ANTI JOIN lookups ON page.project_id = lookups.project_id AND replace(page.name, '_', ' ') = replace(lookups.asked_name, '_', ' ')
    AND lookups.purpose <> 'watch' AND lookups.is_found AND lookups.looked_up_at >= lost_until
  GROUP BY ALL
),
repaired AS (
  SELECT lost.project_id, lost.namespace_id, count(DISTINCT replace(asked_name, '_', ' ')) AS repaired_count
  FROM lookups
  JOIN lost ON lookups.project_id = lost.project_id AND lookups.namespace_id = lost.namespace_id AND looked_up_at >= lost_until
  WHERE purpose = 'repair'
  GROUP BY ALL
)
SELECT
  pairs.project_id,
  pairs.namespace_id,
  base.snapshot_version AS base_snapshot,
  base.boundary_at AS base_boundary_at,
  CASE
    WHEN run_start IS NULL THEN coalesce(boundary_hour, first_missing)
    WHEN run_end < last_hour THEN run_end + INTERVAL 1 HOUR
  END AS first_gap_at,
  exact_from_at,
  exact_until_at,
  CASE WHEN base.snapshot_version IS NULL THEN '{no_snapshot}' END AS reason,
  CASE WHEN base.snapshot_version IS NOT NULL THEN coalesce(absent_count, 0) END AS absent_count,
  CASE WHEN base.snapshot_version IS NOT NULL THEN CAST(coalesce(open.reject_count, 0) + coalesce(rejected.reject_count, 0) AS BIGINT) END AS reject_count,
  coalesce(uncertain_count, 0) AS uncertain_count,
  coalesce(repaired_count, 0) AS repaired_count
FROM pairs
LEFT JOIN base ON pairs.project_id = base.project_id AND pairs.namespace_id = base.namespace_id
LEFT JOIN bounds ON pairs.project_id = bounds.project_id AND pairs.namespace_id = bounds.namespace_id
LEFT JOIN counting ON pairs.project_id = counting.project_id AND pairs.namespace_id = counting.namespace_id
LEFT JOIN exact ON pairs.project_id = exact.project_id AND pairs.namespace_id = exact.namespace_id
LEFT JOIN open ON pairs.project_id = open.project_id AND pairs.namespace_id = open.namespace_id
LEFT JOIN rejected ON pairs.project_id = rejected.project_id AND pairs.namespace_id = rejected.namespace_id
LEFT JOIN uncertain ON pairs.project_id = uncertain.project_id AND pairs.namespace_id = uncertain.namespace_id
LEFT JOIN repaired ON pairs.project_id = repaired.project_id AND pairs.namespace_id = repaired.namespace_id
