-- The rule of `articles_at` for all hours at once. A page begins with its update, and ends with the next state of its title or the next
-- update of its page. The oldest snapshot that exactness begins with is underneath.
CREATE MACRO main.project_size(project) AS TABLE
WITH base AS (
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
{unmirrored})
WHERE complaint IS NOT NULL
ORDER BY hour_at, namespace_id
