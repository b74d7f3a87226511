SELECT time_bucket(CAST($2 AS INTERVAL), event_at) AS span_at, count(*) FILTER (WHERE NOT is_move), count(*) FILTER (WHERE is_move)
FROM ({gone})
GROUP BY ALL
ORDER BY ALL
