-- The hourly files that are not compacted, and all files of each compaction as one unit.
SELECT lake_path AS name, NULL AS span, batch_hour AS first_hour, 1 AS file_count, lake_bytes, false AS superseded, false AS dropped
FROM loads
WHERE table_name = $table AND batch_hour IS NOT NULL AND compaction_id IS NULL
UNION ALL
SELECT
  compaction_id,
  any_value(span),
  any_value(first_hour),
  count(*),
  CAST(sum(lake_bytes) AS BIGINT),
  bool_or(lake_path IN (SELECT lake_path FROM internal.hidden_rows WHERE file_row IS NULL)),
  bool_or(lake_path IN (SELECT lake_path FROM internal.hidden_rows WHERE reason = 'dropped'))
FROM compacted_files
WHERE table_name = $table
GROUP BY compaction_id
ORDER BY ALL
