-- Rows that may stand in their file twice: those whose event and title do, and those that name no event. They are found
-- by short columns, so that whole rows are compared only where it matters.
CREATE OR REPLACE TEMP TABLE suspects AS
SELECT path, file_row
FROM (
  SELECT filename AS path, file_row_number AS file_row, event_id, replace(name, '_', ' ') AS title
  FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false)
)
QUALIFY event_id IS NULL OR count(*) OVER (PARTITION BY path, event_id, title) > 1
