-- A page that a snapshot holds was there, whatever its last event was; only a delete says otherwise.
SELECT
  {project_id} AS project_id,
  title,
  article_id,
  event_at,
  version_id,
  change_type <> 'delete' AS is_update,
  {event_key_of_snapshot} AS event_key,
  {source_at} AS source_at,
  {namespace_id} AS namespace_id
FROM (SELECT *, replace(name, '_', ' ') AS title FROM {rows}) AS page
