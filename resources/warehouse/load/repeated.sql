-- Rows of the files that are not loaded: one row per event and title of a file stays, and of rows without an event one of
-- those that are equal. Of rows that differ all the same the newest stays, then the one with the greatest digest.
CREATE OR REPLACE TEMP TABLE repeated AS
SELECT path, file_row
FROM (
  SELECT
    filename AS path,
    file_row_number AS file_row,
    event_id,
    replace(name, '_', ' ') AS title,
    event_at,
    version_id,
    change_type = 'update' AS is_update,
    {row_digest} AS content
  FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false) AS file
  SEMI JOIN suspects ON file.filename = suspects.path AND file.file_row_number = suspects.file_row
)
QUALIFY row_number() OVER (
  PARTITION BY path, event_id, title, CASE WHEN event_id IS NULL THEN content END
  ORDER BY event_at DESC, version_id DESC, is_update DESC, content DESC, file_row
) > 1
