-- An hour is covered when it is loaded, empty or absent. A gap is the first hour of a pair that is not, whether its row
-- says so or there is no row; hours at the end that the service has not published yet are no gap. With a snapshot
-- underneath, hours count from the one that its boundary lies in; without one, from the first that had a file. An older kept
-- snapshot makes earlier moments exact, where the hours from its own boundary on lead up to the newest one without a break.
CREATE OR REPLACE VIEW project_state AS
WITH beginnings AS (
{beginnings}),
bases AS (
  SELECT project_id, namespace_id, snapshot_version, exported_at, boundary_at,
    time_bucket(INTERVAL 1 HOUR, boundary_at) AS boundary_hour,
    -- a moment knows the events before it. Python and other clients read no year after 9999
    least(newest_event_at, TIMESTAMPTZ '9999-12-31 23:59:59.999998+00') + INTERVAL 1 MICROSECOND AS whole_from
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
oldest AS (
  SELECT bases.project_id, bases.namespace_id, min(whole_from) AS whole_from
  FROM bases
  JOIN counting ON bases.project_id = counting.project_id AND bases.namespace_id = counting.namespace_id
    AND boundary_hour BETWEEN run_start AND run_end
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
  coalesce(oldest.whole_from, base.whole_from, run_start) AS exact_from_at,
  greatest(run_end + INTERVAL 1 HOUR, base.whole_from) AS exact_until_at,
  coalesce(uncertain_count, 0) AS uncertain_count,
  coalesce(repaired_count, 0) AS repaired_count
FROM pairs
LEFT JOIN base ON pairs.project_id = base.project_id AND pairs.namespace_id = base.namespace_id
LEFT JOIN bounds ON pairs.project_id = bounds.project_id AND pairs.namespace_id = bounds.namespace_id
LEFT JOIN counting ON pairs.project_id = counting.project_id AND pairs.namespace_id = counting.namespace_id
LEFT JOIN oldest ON pairs.project_id = oldest.project_id AND pairs.namespace_id = oldest.namespace_id
LEFT JOIN uncertain ON pairs.project_id = uncertain.project_id AND pairs.namespace_id = uncertain.namespace_id
LEFT JOIN repaired ON pairs.project_id = repaired.project_id AND pairs.namespace_id = repaired.namespace_id
