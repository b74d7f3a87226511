-- What the views read: the events, with their places; and the pages whose row of before counts no longer. The events are read once more and written as they
-- come: of them nothing but `live_events` is held.
SELECT {columns}, true AS is_change, is_living, has_body, filename AS lake_file, file_row_number AS lake_row, false AS is_left
FROM {events} AS event
JOIN live_events USING (file_row)
UNION ALL BY NAME
SELECT project_id, article_id, false AS is_change, false AS is_living, false AS has_body, true AS is_left
FROM live_left
