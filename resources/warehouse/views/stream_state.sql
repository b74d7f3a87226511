SELECT
  partition,
  next_offset,
  event_count,
  newest_published_at,
  greatest(0, epoch(now()) - epoch(newest_published_at)) AS lag_seconds
FROM (
  SELECT unnest(
    from_json(
      decode(value), '[{"partition":"BIGINT","next_offset":"BIGINT","event_count":"BIGINT","newest_published_at":"TIMESTAMPTZ"}]'
    ),
    recursive := true
  )
  FROM (FROM parquet_kv_metadata({files}) WHERE decode(CAST(key AS BLOB)) = 'stream_state' ORDER BY file_name DESC LIMIT 1)
)
