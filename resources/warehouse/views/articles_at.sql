-- The rule of the current articles over the rows before a moment. Of the snapshots the newest counts that was whole by then:
-- before its newest event, pages that were changed while it was made are missing in it.
CREATE MACRO main.articles_at(moment, project := NULL, inexact := false) AS TABLE
WITH base AS (
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
{unmirrored}
  UNION ALL
{inexact})
WHERE complaint IS NOT NULL
