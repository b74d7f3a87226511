-- Lake files with the places of the rows that repeat an event and were not loaded.
WITH chosen AS (
  SELECT lake_path, batch_hour, project_id, namespace_id, row_count, duplicate_count
  FROM loads
  WHERE table_name = $table AND compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[])))
),
repeating AS (
  SELECT batch_hour, project_id, namespace_id, unnest(range(row_count)) AS file_row
  FROM chosen
  WHERE duplicate_count > 0
),
dropped AS (
  SELECT batch_hour, project_id, namespace_id, list(file_row ORDER BY file_row) AS file_rows
  FROM repeating
  ANTI JOIN article_changes USING (batch_hour, project_id, namespace_id, file_row)
  GROUP BY ALL
)
SELECT lake_path, row_count, coalesce(file_rows, []) AS file_rows
FROM chosen
LEFT JOIN dropped USING (batch_hour, project_id, namespace_id)
ORDER BY lake_path
