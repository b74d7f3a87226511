SELECT
  began_at,
  kept_at,
  connection_count,
  reconnect_count,
  event_count,
  other_count,
  duplicate_count,
  reject_count,
  coalesce(reset_count, 0) AS reset_count,
  coalesce(too_long_count, 0) AS too_long_count,
  event_count / nullif(epoch(kept_at) - epoch(began_at), 0) AS events_per_second
FROM (
  SELECT unnest(
    from_json(
      decode(value),
      '[{"began_at":"TIMESTAMPTZ","kept_at":"TIMESTAMPTZ","connection_count":"BIGINT","reconnect_count":"BIGINT","event_count":"BIGINT","other_count":"BIGINT","duplicate_count":"BIGINT","reject_count":"BIGINT","reset_count":"BIGINT","too_long_count":"BIGINT"}]'
    ),
    recursive := true
  )
  FROM (FROM parquet_kv_metadata({files}) WHERE decode(CAST(key AS BLOB)) = 'stream_runs' ORDER BY file_name DESC LIMIT 1)
)
