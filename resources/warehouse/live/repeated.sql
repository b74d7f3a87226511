-- The file of their hour would bring each event with its title once.
DELETE FROM live_changes
WHERE file_row IN (
  SELECT file_row
  FROM live_changes AS change
  JOIN live_digests AS compared USING (file_row)
  QUALIFY row_number() OVER (
    PARTITION BY batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' '), CASE WHEN event_id IS NULL THEN digest END
    ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, digest DESC
  ) > 1
);

UPDATE live_changes AS change
SET event_key = compared.event_key
FROM live_digests AS compared
WHERE change.file_row = compared.file_row AND change.event_key IS NULL
