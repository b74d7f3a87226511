-- Where the events stand that a file of their hour would not bring, since it has each with its title once. What comes twice is little: it is found by a
-- short key, and only that is compared by whole rows, which of all hours would take gigabytes.
CREATE OR REPLACE TEMP TABLE live_repeated AS
WITH own AS NOT MATERIALIZED (
  SELECT *, hash(batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' ')) AS mark
  FROM {events} AS event
  SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
)
SELECT file_row
FROM (
  SELECT
    batch_hour, project_id, namespace_id, event_id, event_at, version_id, file_row,
    replace(name, '_', ' ') AS title,
    change_type = 'update' AS is_update,
    {row_digest} AS digest
  FROM own
  SEMI JOIN (SELECT mark FROM own GROUP BY mark HAVING count(*) > 1) AS suspect USING (mark)
)
QUALIFY row_number() OVER (
  PARTITION BY batch_hour, project_id, namespace_id, event_id, title, CASE WHEN event_id IS NULL THEN digest END
  ORDER BY event_at DESC, version_id DESC, is_update DESC, digest DESC
) > 1
