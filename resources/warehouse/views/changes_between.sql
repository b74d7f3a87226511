CREATE MACRO main.changes_between(since, until) AS TABLE
SELECT *
FROM article_changes
WHERE event_at >= CAST(since AS TIMESTAMPTZ) AND event_at < CAST(until AS TIMESTAMPTZ)
QUALIFY row_number() OVER (
  PARTITION BY {event}
  ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id
) = 1
ORDER BY event_at, project_id, article_id, version_id, change_type
