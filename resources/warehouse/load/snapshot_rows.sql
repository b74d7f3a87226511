-- Columns that were declared after the files were written are null.
(
  SELECT file.* EXCLUDE (filename, file_name, file_row_number)
  FROM (
    SELECT {nothing} WHERE false
    UNION ALL BY NAME
    SELECT *, parse_filename(filename) AS file_name
    FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false)
  ) AS file
  ANTI JOIN (
    SELECT parse_filename(lake_path) AS file_name, file_row FROM internal.hidden_rows WHERE starts_with(lake_path, {folder})
  ) AS hidden ON file.file_name = hidden.file_name AND file.file_row_number = hidden.file_row
)
