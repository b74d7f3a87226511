-- What was loaded when, of the files that are in the warehouse now.
SELECT
  time_bucket(CAST($1 AS INTERVAL), loaded_at) AS span_at,
  count(*) AS file_count,
  CAST(sum(ndjson_bytes) AS BIGINT),
  CAST(sum(archive_bytes) AS BIGINT),
  CAST(sum(lake_bytes) AS BIGINT)
FROM loads
GROUP BY ALL
ORDER BY ALL
