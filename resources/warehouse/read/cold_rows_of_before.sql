-- Columns that were declared after the files were written are null.
(
  SELECT {nothing}, NULL AS filename WHERE false
  UNION ALL BY NAME
  FROM read_parquet({files}, hive_partitioning = false, filename = true)
)
