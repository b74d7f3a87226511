-- Rejected records per time span, and the delay in minutes from the end of an hour to the load of its files. Hours that
-- ended before the mirror of their project began were loaded by a backfill, and reloaded hours have no meaningful
-- delay. Both are excluded.
WITH began AS (
  SELECT project_id, namespace_id, min(loaded_at) AS began_at
  FROM loads
  WHERE table_name = 'article_changes'
  GROUP BY ALL
),
files AS (
  SELECT
    batch_hour,
    loads.reject_count,
    CASE WHEN batch_hour + INTERVAL 1 HOUR > began_at AND coalesce(load_count, 1) = 1
      THEN date_diff('second', batch_hour, loaded_at) / 60 - 60 END AS delay
  FROM loads
  JOIN began USING (project_id, namespace_id)
  LEFT JOIN hours USING (table_name, batch_hour, project_id, namespace_id)
  WHERE table_name = 'article_changes'
)
SELECT
  time_bucket(CAST($1 AS INTERVAL), batch_hour) AS span_at,
  CAST(sum(reject_count) AS BIGINT),
  approx_quantile(delay, 0.5),
  max(delay)
FROM files
GROUP BY ALL
ORDER BY ALL
