-- Titles of the watch list that are due for a lookup: those never looked up, those changed since according to the
-- mirror, and once a day those without a known page.
SELECT watched.project_id, coalesce(page.namespace_id, last.namespace_id, 0), watched.name
FROM (SELECT unnest($projects) AS project_id, unnest($names) AS name, unnest(generate_series(1, len($names))) AS place) AS watched
LEFT JOIN articles AS page
  ON watched.project_id = page.project_id AND replace(watched.name, '_', ' ') = replace(page.name, '_', ' ')
LEFT JOIN (
  FROM lookups
  QUALIFY row_number() OVER (PARTITION BY project_id, replace(asked_name, '_', ' ') ORDER BY looked_up_at DESC) = 1
) AS last ON watched.project_id = last.project_id AND replace(watched.name, '_', ' ') = replace(last.asked_name, '_', ' ')
WHERE last.looked_up_at IS NULL
  OR (page.version_id IS DISTINCT FROM last.version_id AND page.event_at > coalesce(last.event_at, last.looked_up_at))
  OR (page.article_id IS NULL AND last.looked_up_at <= CAST($now AS TIMESTAMPTZ) - INTERVAL 1 DAY)
ORDER BY place
