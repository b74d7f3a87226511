SELECT batch_hour, project_id, namespace_id, digest, compaction_id, row_count - duplicate_count AS row_count
FROM loads
WHERE table_name = $table
  AND batch_hour IS NOT NULL
  AND ((compaction_id IS NULL AND lake_path IN (SELECT unnest(CAST($lone AS VARCHAR[])))) OR compaction_id IN (SELECT unnest(CAST($whole AS VARCHAR[]))))
ORDER BY ALL
