-- The changes of hours before the window. The comparisons with constants let a question for newer hours or events open no file.
SELECT {columns}
FROM {rows} AS file
{superseded}
WHERE file.batch_hour < {first_hour} AND file.event_at <= {events_until}
