-- The others, as rows of their hours, with what decides: whole rows of hours would take gigabytes.
INSERT INTO article_changes BY NAME
SELECT {columns}, {event_key} AS event_key, file_row
FROM {events} AS event
SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
ANTI JOIN live_repeated USING (file_row)
