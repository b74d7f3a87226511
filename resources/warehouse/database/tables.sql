-- The tables of the build file, each as pragma_storage_info takes its name.
SELECT concat_ws('.', database_name, '"' || schema_name || '"', '"' || table_name || '"')
FROM duckdb_tables()
WHERE database_name = current_database()
