INSERT INTO article_changes BY NAME
SELECT
  {columns},
  md5_number_lower(
    CASE
      WHEN event_id IS NULL THEN md5(CAST(row({content}) AS VARCHAR))
      ELSE concat(event_id, chr(10), replace(name, '_', ' '))
    END
  ) AS event_key,
  file_row_number AS file_row
FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file
ANTI JOIN repeated ON file.filename = repeated.path AND file.file_row_number = repeated.file_row
