-- The events of hours that have no file of their own so far, with what decides: whole rows of hours would take gigabytes.
CREATE OR REPLACE TEMP TABLE live_changes AS
SELECT {columns}, {event_key} AS event_key, file_row
FROM {events} AS event
ANTI JOIN (
  SELECT batch_hour, project_id, namespace_id FROM hours WHERE table_name = 'article_changes' AND state IN ({covered})
) AS covered USING (batch_hour, project_id, namespace_id)
WHERE batch_hour >= {since};

-- Those that have to be looked at as whole rows, which are few: two of them may be the same, or one names no event.
CREATE OR REPLACE TEMP TABLE live_suspects AS
SELECT file_row
FROM live_changes
WHERE event_key IS NULL
  OR event_key IN (SELECT event_key FROM live_changes GROUP BY event_key HAVING count(*) > 1)
