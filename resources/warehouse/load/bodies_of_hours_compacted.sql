-- What repeats a key is not in these files.
SELECT {columns}
FROM read_parquet({files}, hive_partitioning = false, filename = true) AS file
{passed_over}
WHERE change_type = 'update'
