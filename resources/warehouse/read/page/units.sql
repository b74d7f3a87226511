-- What costs quota, as far as it was loaded: each lookup and each file of a snapshot a unit.
SELECT span_at, CAST(sum(lookup_count) AS BIGINT), CAST(sum(file_count) AS BIGINT)
FROM (
  SELECT time_bucket(CAST($1 AS INTERVAL), looked_up_at) AS span_at, count(*) AS lookup_count, 0 AS file_count FROM lookups GROUP BY ALL
  UNION ALL
  SELECT time_bucket(CAST($1 AS INTERVAL), loaded_at), 0, sum(file_count) FROM snapshots GROUP BY ALL
)
GROUP BY span_at
ORDER BY span_at
