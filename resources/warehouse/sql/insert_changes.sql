INSERT INTO article_changes BY NAME
SELECT * EXCLUDE (content)
FROM (
  SELECT
    {columns},
    md5(CAST(row({content}) AS VARCHAR)) AS content,
    md5_number_lower(CASE WHEN event_id IS NULL THEN content ELSE concat(event_id, chr(10), replace(name, '_', ' ')) END)
      AS event_key,
    file_row_number AS file_row
  FROM read_parquet($path, file_row_number := true, hive_partitioning := false)
)
QUALIFY row_number() OVER (
  PARTITION BY event_id, replace(name, '_', ' '), CASE WHEN event_id IS NULL THEN content END
  ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, content DESC, file_row
) = 1
