-- Lake files of hours with the places of their repeated rows.
SELECT lake_path, any_value(loads.row_count) AS row_count,
  coalesce(list(hidden.file_row ORDER BY hidden.file_row) FILTER (WHERE hidden.file_row IS NOT NULL), []) AS file_rows
FROM loads
LEFT JOIN (FROM internal.hidden_rows WHERE reason = 'repeated') AS hidden USING (lake_path)
WHERE table_name = $table AND compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($single AS VARCHAR[])))
GROUP BY lake_path
ORDER BY lake_path
