-- By span of time: lines rejected, and how long after the end of an hour its files were loaded, in minutes.
SELECT
  time_bucket(CAST($1 AS INTERVAL), batch_hour) AS span_at,
  CAST(sum(reject_count) AS BIGINT),
  approx_quantile(date_diff('second', batch_hour, loaded_at) / 60 - 60, 0.5),
  max(date_diff('second', batch_hour, loaded_at) / 60 - 60)
FROM loads
WHERE table_name = 'article_changes'
GROUP BY ALL
ORDER BY ALL
