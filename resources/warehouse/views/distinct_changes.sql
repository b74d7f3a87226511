-- An event can stand in two hour files; both halves of a move share the event and differ in the title.
CREATE VIEW distinct_changes AS
SELECT *
FROM article_changes
QUALIFY row_number() OVER (
  PARTITION BY project_id, replace(name, '_', ' '), coalesce(event_id, concat(article_id, ' ', version_id, ' ', change_type, ' ', event_at))
  ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id
) = 1
