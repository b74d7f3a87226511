-- Streams: no body is ever sorted or grouped, and filters on the key reach the files' statistics.
CREATE VIEW article_bodies AS
SELECT project_id, article_id, version_id, batch_hour, html, wikitext
FROM read_parquet({files}, union_by_name = true, hive_partitioning = false, file_row_number = true) AS file
ANTI JOIN internal.shadowed AS shadow ON
  file.batch_hour = shadow.batch_hour
  AND file.project_id = shadow.project_id
  AND file.namespace_id = shadow.namespace_id
  AND file.file_row_number = shadow.file_row
