-- name: exact_bases
-- Kept snapshots of articles at which an exact range can begin, per project and namespace: the newest one, and each
-- older one whose boundary is connected to the newest one's by covered hours. No row: there is no snapshot, so only
-- changed pages are known.
SELECT kept.project_id, kept.namespace_id, kept.source_at, kept.whole_from, kept.boundary_hour, kept.is_newest
FROM (
  SELECT
    project_id,
    namespace_id,
    source_at,
    -- A moment includes the events before it, so the first moment with a complete snapshot is after its newest event.
    -- Python and other clients read no year after 9999.
    least(newest_event_at, TIMESTAMPTZ '9999-12-31 23:59:59.999998+00') + INTERVAL 1 MICROSECOND AS whole_from,
    time_bucket(INTERVAL 1 HOUR, boundary_at) AS boundary_hour,
    max(time_bucket(INTERVAL 1 HOUR, boundary_at)) OVER (PARTITION BY project_id, namespace_id) AS newest_hour,
    row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1 AS is_newest
  FROM snapshots
  WHERE table_name = 'snapshot_articles'
) AS kept
LEFT JOIN hours ON NOT is_newest
  AND hours.table_name = 'article_changes' AND hours.state IN ({covered})
  AND hours.project_id = kept.project_id AND hours.namespace_id = kept.namespace_id
  AND hours.batch_hour >= kept.boundary_hour AND hours.batch_hour <= kept.newest_hour
GROUP BY kept.project_id, kept.namespace_id, kept.source_at, kept.whole_from, kept.boundary_hour, newest_hour, is_newest
HAVING is_newest OR count(hours.batch_hour) = date_diff('hour', kept.boundary_hour, newest_hour) + 1

-- name: inexact
-- Raises an error for a moment before all pages are known, instead of returning too few; `inexact := true` accepts
-- them.
  SELECT
    CASE
      WHEN inexact IS NOT TRUE AND count(*) FILTER (is_inexact) > 0
        THEN CAST(error(concat(
          'articles_at is not exact at ', coalesce(CAST(CAST(moment AS TIMESTAMPTZ) AS VARCHAR), 'a moment that is null'), '. ',
          array_to_string(list_slice(list(reason ORDER BY project_id, namespace_id) FILTER (is_inexact), 1, 5), ' '),
          CASE WHEN count(*) FILTER (is_inexact) > 5 THEN concat(' And ', count(*) FILTER (is_inexact) - 5, ' more.') ELSE '' END,
          ' Use a later moment, a project that is exact then (project := ''name''), or inexact := true for the known pages only. ',
          'FROM project_state lists all exact ranges.'
        )) AS VARCHAR)
    END AS complaint
  FROM (
    SELECT
      project_id,
      namespace_id,
      NOT coalesce(CAST(moment AS TIMESTAMPTZ) >= exact_from_at, false) AS is_inexact,
      concat(
        project_id, ' namespace ', namespace_id,
        coalesce(' is exact from ' || CAST(exact_from_at AS VARCHAR) || ' on.', ' has {no_snapshot}.')
      ) AS reason
    FROM (
      SELECT project_id, namespace_id FROM hours WHERE table_name = 'article_changes'
      UNION
      SELECT project_id, namespace_id FROM snapshots WHERE table_name = 'snapshot_articles'
    ) AS pairs
    LEFT JOIN (
      SELECT project_id, namespace_id, min(whole_from) AS exact_from_at
      FROM (
{exact_bases})
      GROUP BY ALL
    ) AS exact USING (project_id, namespace_id)
    WHERE project IS NULL OR project_id = project
  )

-- name: unmirrored
-- Raises an error for an unknown project, instead of returning no rows. A null selects all projects.
  SELECT
    CASE
      WHEN project IS NOT NULL AND NOT coalesce(bool_or(known.project_id = project), false)
        THEN CAST(error(concat(
          'The project ', project, ' is not mirrored here. ',
          'The nearest name is ' || arg_max(known.project_id, jaro_winkler_similarity(lower(known.project_id), lower(project))) || '. ',
          'SELECT DISTINCT project_id FROM hours lists those that are.'
        )) AS VARCHAR)
    END AS complaint
  FROM (
    SELECT project_id FROM hours WHERE table_name = 'article_changes'
    UNION
    SELECT project_id FROM snapshots WHERE table_name = 'snapshot_articles'
  ) AS known

-- name: captured
-- DuckDB inserts an argument as an expression, so a column without its table's name would silently become a column of
-- the macro's own query. In `given`, which reads no table, it is still the caller's column. In `hidden`, which has all
-- names of columns, it is null. All other arguments are the same in both.
given AS (SELECT row({parameters}) AS arguments),
captured AS (
  SELECT
    CASE
      WHEN row({parameters}) IS DISTINCT FROM given.arguments
        THEN CAST(error(concat(
          'An argument of {macro} is a column without the name of its table, so {macro} may take it for a column of its ',
          'own. Write it with its table, for example page.name with FROM articles AS page.'
        )) AS VARCHAR)
    END AS complaint
  FROM given, (SELECT {hidden}) AS hidden
)

-- name: articles_at
-- The rule of the current articles for rows before a moment, with the newest snapshot that was complete by then. Before
-- its newest event, a snapshot lacks pages that changed while it was created.
CREATE MACRO main.articles_at(moment, project := NULL, inexact := false) AS TABLE
WITH {captured},
base AS (
  SELECT project_id, namespace_id, boundary_at, source_at
  FROM snapshots
  WHERE table_name = 'snapshot_articles' AND newest_event_at < CAST(moment AS TIMESTAMPTZ)
    AND (project IS NULL OR project_id = project)
  QUALIFY row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1
),
changes AS (
  SELECT * RENAME (source_at AS batch_hour), {event_key} AS event_key, {mark} AS mark
  FROM {changes}
  WHERE event_at < CAST(moment AS TIMESTAMPTZ) AND (project IS NULL OR project_id = project)
),
states AS (
{candidates}
  UNION ALL
  SELECT gone.project_id, title, 0, event_at, 0, false, 0, gone.source_at, gone.namespace_id, '' AS mark
  FROM internal.not_found AS gone
  LEFT JOIN base ON gone.project_id = base.project_id AND gone.namespace_id = base.namespace_id
  WHERE event_at < CAST(moment AS TIMESTAMPTZ)
    AND (project IS NULL OR gone.project_id = project)
    AND (base.boundary_at IS NULL OR event_at >= base.boundary_at)
  UNION ALL
  SELECT {row_key}, '' AS mark
  FROM internal.snapshot_states AS page
  SEMI JOIN base USING (project_id, namespace_id, source_at)
  WHERE project IS NULL OR page.project_id = project
),
ranked AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_state_first}) AS place_of_title,
    row_number() OVER (PARTITION BY project_id, article_id, is_update ORDER BY {newest_state_first}) AS place_of_page
  FROM states
)
SELECT {columns}
FROM (
  SELECT {columns}, replace(name, '_', ' ') AS title, {mark} AS mark FROM {changes} WHERE change_type = 'update'
  UNION ALL
  SELECT {columns}, replace(name, '_', ' ') AS title, '' AS mark FROM internal.snapshot_pages
) AS page
SEMI JOIN (
  FROM ranked WHERE place_of_title = 1 AND place_of_page = 1 AND is_update
) AS living USING (project_id, namespace_id, source_at, article_id, version_id, event_at, title, mark)
WHERE project IS NULL OR page.project_id = project
UNION ALL BY NAME
SELECT {complaints}
FROM (
  FROM captured
  UNION ALL
{unmirrored}
  UNION ALL
{inexact})
WHERE complaint IS NOT NULL

-- name: project_state
-- An hour is covered if it is loaded, empty or absent. A gap is the first other hour of a project and namespace, with
-- or without a row; unpublished hours at the end are not gaps. With a base snapshot, hours count from the one that
-- contains its boundary. Without one, hours count from the first with a file, and no moment is exact. An older kept
-- snapshot makes earlier moments exact if covered hours connect its boundary to the newest one's.
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
-- The run of covered hours that counts: the one that contains the base, or without a base the first one.
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
-- Uncertainties of the service's files in the exact range: hours that a later listing may still name, and rejected
-- records.
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
-- A page that a lost hour may have changed is certain again after a later change of the page, or a lookup.
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

-- name: project_size
-- The rule of `articles_at` for all hours at once. A page begins with its update, and ends with the next state of its
-- title or the next update of its page. The base is the oldest snapshot at which the exact range can begin.
CREATE MACRO main.project_size(project) AS TABLE
WITH {captured},
base AS (
  SELECT one.project_id, one.namespace_id, one.source_at, one.whole_from, kept.boundary_at
  FROM (
{exact_bases}) AS one
  JOIN snapshots AS kept ON kept.table_name = 'snapshot_articles' AND kept.source_at = one.source_at
    AND kept.project_id = one.project_id AND kept.namespace_id = one.namespace_id
  WHERE one.project_id = project
  QUALIFY row_number() OVER (PARTITION BY one.project_id, one.namespace_id ORDER BY one.whole_from, one.source_at) = 1
),
changes AS (
  SELECT * RENAME (source_at AS batch_hour), {event_key} AS event_key
  FROM {changes}
  WHERE project_id = project
),
states AS (
{candidates}
  UNION ALL
  SELECT gone.project_id, title, 0, event_at, 0, false, 0, gone.source_at, gone.namespace_id, NULL, NULL
  FROM internal.not_found AS gone
  LEFT JOIN base ON gone.project_id = base.project_id AND gone.namespace_id = base.namespace_id
  WHERE gone.project_id = project AND (base.boundary_at IS NULL OR event_at >= base.boundary_at)
  UNION ALL
  SELECT
    page.project_id,
    replace(page.name, '_', ' '),
    page.article_id,
    page.event_at,
    page.version_id,
    page.is_update,
    page.event_key,
    page.source_at,
    page.namespace_id,
    page.size_bytes,
    page.character_count
  FROM (
    SELECT *, change_type <> 'delete' AS is_update, {event_key_of_snapshot} AS event_key
    FROM (SELECT *, replace(name, '_', ' ') AS title FROM internal.snapshot_pages)
  ) AS page
  SEMI JOIN base USING (project_id, namespace_id, source_at)
),
lives AS (
  SELECT
    namespace_id,
    is_update,
    event_at AS since,
    least(
      lead(event_at) OVER (PARTITION BY project_id, title ORDER BY {oldest_state_first}),
      lead(event_at) OVER (PARTITION BY project_id, article_id, is_update ORDER BY {oldest_state_first})
    ) AS until,
    size_bytes,
    character_count
  FROM states
),
steps AS (
  SELECT
    namespace_id,
    time_bucket(INTERVAL 1 HOUR, moment) AS hour_at,
    sum(sign) AS page_count,
    sum(sign * CAST(size_bytes AS HUGEINT)) AS size_bytes,
    sum(sign * CAST(character_count AS HUGEINT)) AS character_count
  FROM (
    SELECT namespace_id, since AS moment, 1 AS sign, size_bytes, character_count FROM lives WHERE is_update
    UNION ALL
    SELECT namespace_id, until, -1, size_bytes, character_count FROM lives WHERE is_update AND until IS NOT NULL
  )
  GROUP BY ALL
),
sums AS (
  SELECT
    namespace_id,
    hour_at,
    sum(page_count) OVER so_far AS page_count,
    sum(size_bytes) OVER so_far AS size_bytes,
    sum(character_count) OVER so_far AS character_count
  FROM steps
  WINDOW so_far AS (PARTITION BY namespace_id ORDER BY hour_at)
),
known AS (
  SELECT hours.project_id, hours.namespace_id, hours.batch_hour AS hour_at
  FROM hours
  JOIN project_state AS state ON state.project_id = hours.project_id AND state.namespace_id = hours.namespace_id
  JOIN base ON base.project_id = hours.project_id AND base.namespace_id = hours.namespace_id
  WHERE hours.table_name = 'article_changes' AND hours.state IN ({covered}) AND hours.project_id = project
    AND hours.batch_hour + INTERVAL 1 HOUR BETWEEN base.whole_from AND state.exact_until_at
)
SELECT
  known.project_id,
  known.namespace_id,
  known.hour_at,
  CAST(coalesce(sums.page_count, 0) AS BIGINT) AS article_count,
  TRY_CAST(coalesce(sums.size_bytes, 0) AS BIGINT) AS size_bytes,
  TRY_CAST(coalesce(sums.character_count, 0) AS BIGINT) AS character_count
FROM known
ASOF LEFT JOIN sums ON known.namespace_id = sums.namespace_id AND known.hour_at >= sums.hour_at
UNION ALL BY NAME
SELECT
  CAST(complaint AS VARCHAR) AS project_id,
  CAST(complaint AS BIGINT) AS namespace_id,
  CAST(complaint AS TIMESTAMPTZ) AS hour_at,
  CAST(complaint AS BIGINT) AS article_count,
  CAST(complaint AS BIGINT) AS size_bytes,
  CAST(complaint AS BIGINT) AS character_count
FROM (
  FROM captured
  UNION ALL
{unmirrored})
WHERE complaint IS NOT NULL
ORDER BY hour_at, namespace_id
