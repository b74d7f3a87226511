SELECT
  batch_hour,
  project_id,
  namespace_id,
  state,
  CAST(count(digest) AS BIGINT) AS file_count,
  CAST(coalesce(sum(loads.row_count - duplicate_count), 0) AS BIGINT) AS row_count,
  CAST(coalesce(sum(duplicate_count), 0) AS BIGINT) AS duplicate_count,
  CAST(coalesce(sum(update_count), 0) AS BIGINT) AS update_count,
  CAST(coalesce(sum(delete_count), 0) AS BIGINT) AS delete_count,
  CAST(coalesce(sum(visibility_change_count), 0) AS BIGINT) AS visibility_change_count,
  CAST(coalesce(sum(loads.reject_count), 0) AS BIGINT) AS reject_count,
  CAST(coalesce(sum(archive_bytes), 0) AS BIGINT) AS archive_bytes,
  CAST(coalesce(sum(ndjson_bytes), 0) AS BIGINT) AS ndjson_bytes,
  CAST(coalesce(sum(lake_bytes), 0) AS BIGINT) AS lake_bytes
FROM hours
LEFT JOIN loads USING (table_name, batch_hour, project_id, namespace_id)
WHERE table_name = $table AND list_contains($hours, batch_hour)
GROUP BY batch_hour, project_id, namespace_id, state
ORDER BY batch_hour, project_id, namespace_id
