-- Those events, as rows of their hours, with what decides: whole rows of hours would take gigabytes. `file_row` says the file as well, by its place in
-- the list.
INSERT INTO article_changes BY NAME
SELECT {columns}, {event_key} AS event_key, list_position({paths}, filename) * {rows_of_a_file} + file_row_number AS file_row
FROM {events} AS event
SEMI JOIN live_kept USING (filename, file_row_number)
