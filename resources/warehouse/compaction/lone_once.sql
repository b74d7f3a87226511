-- Lake files with the places of the rows that are passed over because there is a newer one of their key, or the same once more.
WITH shadow AS (
  SELECT batch_hour, project_id, namespace_id, list(file_row ORDER BY file_row) AS file_rows
  FROM internal.shadowed_hours
  WHERE table_name = $table
  GROUP BY ALL
)
SELECT lake_path, row_count, coalesce(file_rows, []) AS file_rows
FROM loads
LEFT JOIN shadow USING (batch_hour, project_id, namespace_id)
WHERE table_name = $table AND compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[])))
ORDER BY lake_path
