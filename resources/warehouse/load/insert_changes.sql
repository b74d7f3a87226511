INSERT INTO article_changes BY NAME
SELECT
  {columns},
  {event_key} AS event_key,
  file_row_number AS file_row
FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file
ANTI JOIN repeated ON file.filename = repeated.path AND file.file_row_number = repeated.file_row
