-- Their events, each with its title once, as a file of their hour would bring them.
INSERT INTO article_changes BY NAME
SELECT {columns}, {event_key} AS event_key, 0 AS file_row
FROM read_parquet($paths, hive_partitioning := false) AS event
SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
QUALIFY row_number() OVER (
  PARTITION BY
    batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' '), CASE WHEN event_id IS NULL THEN {row_digest} END
  ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, {row_digest} DESC
) = 1
