-- Few sorted files: what is asked for by page or revision is in one row group of each at the most, and filters reach their statistics, those of
-- joins as well.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false, filename = true) AS file
ANTI JOIN internal.shadowed AS shadow ON
  file.batch_hour = shadow.batch_hour
  AND file.project_id = shadow.project_id
  AND file.namespace_id = shadow.namespace_id
  AND file.file_row = shadow.file_row
{superseded}
