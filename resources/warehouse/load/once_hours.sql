-- What is in a file twice is little: it is found by its key before anything is sorted.
CREATE OR REPLACE TEMP TABLE repeated AS
WITH suspects AS (
  SELECT filename, {key}
  FROM read_parquet($paths, filename := true, hive_partitioning := false)
  GROUP BY ALL
  HAVING count(*) > 1
)
SELECT filename AS path, file_row_number AS file_row
FROM read_parquet($paths, filename := true, file_row_number := true, hive_partitioning := false)
SEMI JOIN suspects USING (filename, {key})
QUALIFY row_number() OVER (PARTITION BY filename, {key} ORDER BY {newest_first}file_row_number) > 1
