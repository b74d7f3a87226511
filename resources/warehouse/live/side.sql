-- What one side says of an hour: each event and title once, with digests of what both must say alike.
CREATE OR REPLACE TEMP TABLE {side} AS
SELECT
  project_id,
  namespace_id,
  replace(name, '_', ' ') AS title,
  coalesce(event_id, concat(article_id, ' ', version_id, ' ', change_type, ' ', event_at)) AS mark,
  event_id,
  name,
  article_id,
  version_id,
  change_type,
  event_at,
  hash({content}) AS content,
  CASE WHEN html IS NOT NULL THEN hash(html) END AS html,
  CASE WHEN wikitext IS NOT NULL THEN hash(wikitext) END AS wikitext,
  filename,
  file_row_number
FROM {rows} AS event
SEMI JOIN comparing USING (project_id, namespace_id)
WHERE batch_hour = $hour AND change_type <> 'visibility-change'
QUALIFY row_number() OVER (
  PARTITION BY project_id, namespace_id, title, mark ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, content DESC
) = 1
