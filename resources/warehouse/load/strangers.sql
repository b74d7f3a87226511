-- Files that hold rows of another hour, project or namespace than was announced, and how many.
SELECT path, count(*)
FROM read_parquet($paths, filename := true, hive_partitioning := false) AS file
JOIN incoming ON file.filename = incoming.path
WHERE file.batch_hour IS DISTINCT FROM incoming.batch_hour
  OR file.project_id IS DISTINCT FROM incoming.project_id
  OR file.namespace_id IS DISTINCT FROM incoming.namespace_id
GROUP BY path
ORDER BY path
