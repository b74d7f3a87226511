-- The newest change of each title, and the newest update of each page, in some hours that `articles` has applied. Its
-- rows of these must not be older; if it has no row, `internal.titles` or `internal.pages` must have a newer state.
-- Long tables are filtered by short keys first.
WITH taken AS MATERIALIZED (
  SELECT candidate.*, {title_key} AS title_key
  FROM internal.candidates AS candidate
  {of_hours}
  WHERE candidate.source_at BETWEEN $first AND $last
),
titles AS MATERIALIZED (
  FROM taken QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_state_first}) = 1
),
pages AS MATERIALIZED (
  FROM taken WHERE is_update
  QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_state_first}) = 1
),
near AS MATERIALIZED (
  SELECT project_id, replace(name, '_', ' ') AS title, article_id, event_at
  FROM articles
  SEMI JOIN titles USING (title_key)
),
living AS (
  FROM near
  UNION ALL
  SELECT project_id, NULL, article_id, event_at
  FROM articles
  SEMI JOIN (FROM pages ANTI JOIN near USING (project_id, article_id)) AS unseen USING (article_id)
),
compared AS (
  SELECT titles.project_id, titles.title, NOT titles.is_update AS is_deleted, titles.event_at, near.event_at AS held_at, ended.event_at AS ended_at
  FROM titles
  LEFT JOIN near USING (project_id, title)
  LEFT JOIN internal.titles AS ended USING (project_id, title)
  UNION
  SELECT pages.project_id, pages.title, false, pages.event_at, living.event_at, ended.event_at
  FROM pages
  LEFT JOIN living USING (project_id, article_id)
  LEFT JOIN internal.pages AS ended USING (project_id, article_id)
)
{overlooked}
