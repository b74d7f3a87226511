-- What stands in the files twice is little: it is found by its key before anything is sorted.
INSERT INTO internal.shadowed_snapshots
WITH repeated AS (
  SELECT {key}
  FROM read_parquet({files}, hive_partitioning = false)
  GROUP BY ALL
  HAVING count(*) > 1
)
SELECT {snapshot_id}, {snapshot_version}, parse_filename(filename), file_row_number
FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false) AS file
SEMI JOIN repeated USING ({key})
QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {newest_first}parse_filename(filename), file_row_number) > 1
