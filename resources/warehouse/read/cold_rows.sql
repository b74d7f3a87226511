read_parquet({files}, hive_partitioning = false, filename = true)
