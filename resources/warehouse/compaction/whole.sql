-- Compacted files with what is passed over in them.
SELECT
  file.lake_path,
  any_value(file.row_count) AS row_count,
  list({'batch_hour': part.batch_hour, 'project_id': part.project_id, 'namespace_id': part.namespace_id})
    FILTER (WHERE part.lake_path IS NOT NULL) AS parts
FROM compacted_files AS file
LEFT JOIN (FROM internal.hidden_rows WHERE file_row IS NULL) AS part ON file.lake_path = part.lake_path
WHERE file.compaction_id IN (SELECT unnest(CAST($whole AS VARCHAR[])))
GROUP BY file.lake_path
ORDER BY file.lake_path
