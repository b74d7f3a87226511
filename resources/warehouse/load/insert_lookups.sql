INSERT INTO lookups BY NAME
SELECT {columns}, {event_key} AS event_key
FROM (SELECT *, event_type AS change_type FROM read_parquet($paths, hive_partitioning := false))
