-- The rule of the current articles over the rows before a moment. Of the snapshots the newest counts that was whole by then:
-- before its newest event, pages that were changed while it was made are missing in it.
CREATE MACRO articles_at(moment, project := NULL) AS TABLE
WITH base AS (
  SELECT project_id, namespace_id, boundary_at, source_at
  FROM snapshots
  WHERE table_name = 'snapshot_articles' AND newest_event_at < CAST(moment AS TIMESTAMPTZ)
    AND (project IS NULL OR project_id = project)
  QUALIFY row_number() OVER (
    PARTITION BY project_id, namespace_id
    ORDER BY boundary_at DESC, exported_at DESC NULLS LAST, snapshot_version DESC
  ) = 1
),
states AS (
  SELECT
    change.project_id,
    change.title,
    change.article_id,
    change.event_at,
    change.version_id,
    change.change_type = 'update' AS is_update,
    change.event_key,
    change.source_at,
    change.namespace_id,
    change.mark
  FROM (
    SELECT *, replace(name, '_', ' ') AS title, {event_key} AS event_key, {mark} AS mark FROM {changes}
  ) AS change
  LEFT JOIN base ON change.project_id = base.project_id AND change.namespace_id = base.namespace_id
  WHERE change.event_at < CAST(moment AS TIMESTAMPTZ)
    AND (project IS NULL OR change.project_id = project)
    AND (
      change.change_type = 'delete'
      OR (change.change_type = 'update' AND (base.boundary_at IS NULL OR change.event_at >= base.boundary_at))
    )
  UNION ALL
  SELECT project_id, title, article_id, event_at, version_id, is_update, event_key, source_at, namespace_id, '' AS mark
  FROM internal.snapshot_states AS page
  SEMI JOIN base USING (project_id, namespace_id, source_at)
  WHERE project IS NULL OR page.project_id = project
),
ranked AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_first}) AS place_of_title,
    row_number() OVER (PARTITION BY project_id, article_id, is_update ORDER BY {newest_first}) AS place_of_page
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
{unmirrored})
WHERE complaint IS NOT NULL
