-- Columns that were declared after the files were written are null.
(
  SELECT file.* EXCLUDE (filename, file_row_number)
  FROM (
    SELECT {nothing} WHERE false
    UNION ALL BY NAME
    FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false)
  ) AS file
  ANTI JOIN (
    FROM internal.shadowed_snapshots WHERE snapshot_id = {snapshot_id} AND snapshot_version = {snapshot_version}
  ) AS shadow ON parse_filename(file.filename) = shadow.file_name AND file.file_row_number = shadow.file_row
)
