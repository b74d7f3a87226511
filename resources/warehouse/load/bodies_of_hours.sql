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
ANTI JOIN (
  FROM internal.hidden_rows WHERE file_row IS NOT NULL AND starts_with(lake_path, {table_folder})
) AS hidden ON
  file.batch_hour = hidden.batch_hour
  AND file.project_id = hidden.project_id
  AND file.namespace_id = hidden.namespace_id
  AND file.file_row_number = hidden.file_row
WHERE change_type = 'update'
