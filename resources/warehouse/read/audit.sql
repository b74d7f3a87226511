WITH promised AS (
  SELECT batch_hour, sum(row_count - duplicate_count) AS expected_count
  FROM loads
  WHERE table_name = $table AND list_contains($hours, batch_hour)
  GROUP BY batch_hour
),
rows_by_key AS (
  SELECT batch_hour, {key}, count(*) AS copies, count_if({event_at} < batch_hour) AS early
  FROM {table}
  WHERE batch_hour BETWEEN $first AND $last AND list_contains($hours, batch_hour)
  GROUP BY ALL
),
held AS (
  SELECT batch_hour, sum(copies) AS row_count, sum(early) AS early_count,
    sum(copies - 1) FILTER (WHERE {has_key}) AS repeated_count
  FROM rows_by_key
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
