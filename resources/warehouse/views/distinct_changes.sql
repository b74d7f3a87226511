-- An event can stand in two hour files; both halves of a move share the event and differ in the title.
CREATE VIEW main.distinct_changes AS
SELECT {change_columns}
FROM article_changes
QUALIFY row_number() OVER (
  PARTITION BY {event}
  ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id
) = 1
