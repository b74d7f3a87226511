WITH promised AS (
  SELECT batch_hour, sum(row_count - duplicate_count) AS expected_count
  FROM loads
  WHERE table_name = 'article_changes' AND list_contains($hours, batch_hour)
  GROUP BY batch_hour
),
events AS (
  SELECT batch_hour, event_id, replace(name, '_', ' ') AS title, project_id, namespace_id, count(*) AS copies,
    count_if(event_at < batch_hour) AS early
  FROM article_changes
  WHERE list_contains($hours, batch_hour)
  GROUP BY ALL
),
held AS (
  SELECT batch_hour, sum(copies) AS row_count, sum(early) AS early_count,
    sum(copies - 1) FILTER (WHERE event_id IS NOT NULL) AS repeated_count
  FROM events
  GROUP BY batch_hour
)
SELECT
  batch_hour,
  CAST(coalesce(row_count, 0) AS BIGINT) AS row_count,
  CAST(expected_count AS BIGINT) AS expected_count,
  CAST(coalesce(repeated_count, 0) AS BIGINT) AS repeated_count,
  CAST(coalesce(early_count, 0) AS BIGINT) AS early_count
FROM promised LEFT JOIN held USING (batch_hour)
ORDER BY batch_hour
