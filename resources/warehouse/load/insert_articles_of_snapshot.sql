INSERT INTO articles BY NAME
SELECT {columns}, {source_at} AS source_at, {title_key} AS title_key, {event_key_of_snapshot} AS event_key
FROM (SELECT *, replace(name, '_', ' ') AS title FROM {rows}) AS page
SEMI JOIN (
  FROM deciding
  WHERE source_at = {source_at} AND project_id = {project_id} AND namespace_id = {namespace_id}
) AS deciding USING (article_id, version_id)
