-- Streams: no body is ever sorted or grouped. The hour is told by the folder, so that a filter on it leaves the other
-- files unopened; filters on project, page and revision reach the statistics of the files that are opened. Columns are
-- found by name and declared in every version of the files, so the first file's schema stands for all.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM (
  SELECT
    project_id,
    article_id,
    version_id,
    CAST(concat("date", ' ', "hour", ':00:00+00') AS TIMESTAMPTZ) AS batch_hour,
    html,
    wikitext,
    namespace_id,
    file_row_number
  FROM read_parquet(
    {files}, hive_partitioning = true, hive_types = {'date': VARCHAR, 'hour': VARCHAR}, file_row_number = true
  )
) AS file
ANTI JOIN internal.shadowed AS shadow ON
  file.batch_hour = shadow.batch_hour
  AND file.project_id = shadow.project_id
  AND file.namespace_id = shadow.namespace_id
  AND file.file_row_number = shadow.file_row
