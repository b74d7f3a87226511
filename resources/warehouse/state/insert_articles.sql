INSERT INTO articles BY NAME
SELECT {columns}, {title_key} AS title_key, event_key
FROM (SELECT *, batch_hour AS source_at, replace(name, '_', ' ') AS title FROM {changes} WHERE change_type = 'update') AS change
-- the rows of snapshots, which are of no full hour, would only take memory
SEMI JOIN (FROM deciding WHERE source_at = time_bucket(INTERVAL 1 HOUR, source_at)) AS deciding USING ({row_key_of_changes})
