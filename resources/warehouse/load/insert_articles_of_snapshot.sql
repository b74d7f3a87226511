INSERT INTO articles BY NAME
SELECT {columns}, {batch_hour} AS batch_hour, {title_key} AS title_key, {event_key} AS event_key
FROM (SELECT *, replace(name, '_', ' ') AS title FROM {rows}) AS page
SEMI JOIN (
  FROM deciding
  WHERE batch_hour = {batch_hour} AND project_id = {project_id} AND namespace_id = {namespace_id}
) AS deciding USING (article_id, version_id)
