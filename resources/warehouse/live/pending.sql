-- Their hours count as loaded and not taken in.
INSERT INTO loads BY NAME
SELECT
  'article_changes' AS table_name,
  batch_hour AS source_at,
  batch_hour,
  project_id,
  namespace_id,
  '' AS identifier,
  '' AS version,
  '' AS digest,
  '' AS lake_path,
  0 AS row_count,
  0 AS duplicate_count,
  0 AS reject_count,
  0 AS update_count,
  0 AS delete_count,
  0 AS visibility_change_count,
  0 AS archive_bytes,
  0 AS ndjson_bytes,
  0 AS lake_bytes,
  now() AS loaded_at
FROM live_hours
