-- Where the events stand that a file of their hour would bring: each with its title once. They are chosen by a few short columns, since whole rows of hours would
-- take gigabytes.
CREATE OR REPLACE TEMP TABLE live_kept AS
SELECT filename, file_row_number
FROM (
  SELECT
    batch_hour, project_id, namespace_id, event_id, event_at, version_id, filename, file_row_number,
    replace(name, '_', ' ') AS title,
    change_type = 'update' AS is_update,
    {row_digest} AS digest
  FROM {events} AS event
  SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
)
QUALIFY row_number() OVER (
  PARTITION BY batch_hour, project_id, namespace_id, event_id, title, CASE WHEN event_id IS NULL THEN digest END
  ORDER BY event_at DESC, version_id DESC, is_update DESC, digest DESC
) = 1
