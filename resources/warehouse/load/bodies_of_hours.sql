-- Streams: no body is ever sorted or grouped. The hour is told by the folder, so that a filter on it leaves the other files
-- unopened. Columns are found by name and declared in every version of the files, so the first file's schema stands for all.
SELECT {columns}
FROM (
  SELECT * EXCLUDE ("date", "hour", batch_hour), CAST(concat("date", ' ', "hour", ':00:00+00') AS TIMESTAMPTZ) AS batch_hour
  FROM read_parquet(
    {files},
    hive_partitioning = true,
    hive_types = {'date': VARCHAR, 'hour': VARCHAR},
    file_row_number = true
  )
) AS file
ANTI JOIN (FROM internal.shadowed_hours WHERE table_name = {table_name}) AS shadow ON
  file.batch_hour = shadow.batch_hour
  AND file.project_id = shadow.project_id
  AND file.namespace_id = shadow.namespace_id
  AND file.file_row_number = shadow.file_row
WHERE change_type = 'update'
