SELECT
  project_id,
  title AS name,
  is_deleted,
  event_at AS known_at,
  held_at,
  is_deleted AND held_at IS NOT NULL AS is_there_still,
  count(*) OVER (PARTITION BY is_there_still) AS total
FROM compared
WHERE coalesce(held_at < greatest(event_at, ended_at), ended_at IS NULL OR ended_at < event_at)
QUALIFY row_number() OVER (PARTITION BY is_there_still ORDER BY project_id, title) <= $limit
ORDER BY project_id, title
