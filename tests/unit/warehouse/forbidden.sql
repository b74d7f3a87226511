FROM read_text('{outside}/secret.txt')
FROM '{outside}/secret.txt'
FROM glob('{outside}/*')
FROM parquet_metadata('{outside}/secret.txt')
FROM read_text('{lake}/link/secret.txt')
FROM read_text('{lake}/../../outside/secret.txt')
FROM read_text('{lake}/../state/tokens.json')
FROM read_parquet('https://127.0.0.1:9/a.parquet')
SELECT getenv('HOME')
EXPLAIN ANALYZE FROM read_text('{outside}/secret.txt')
SELECT * FROM query('FROM read_text(''{outside}/secret.txt'')')
ATTACH '{outside}/secret.duckdb'
IMPORT DATABASE '{outside}'
CREATE SECRET (TYPE s3)
FROM duckdb_secrets()
INSTALL httpfs
LOAD '{outside}/secret.txt'
COPY (SELECT 1) TO '{outside}/written.csv'
{write}
{write}; SELECT 1
SELECT 1; {write}
SELECT 1); {write}; FROM (SELECT 1
/* SELECT */ {write}
EXPLAIN ANALYZE {write}
EXPLAIN (ANALYZE) {write}
WITH t AS ({write}) FROM t
EXPLAIN ANALYZE WITH t AS ({write}) FROM t
SELECT * FROM (WITH t AS ({write}) FROM t)
WITH t AS ({write}) PIVOT t ON Count
FROM (WITH t AS ({write}) PIVOT t ON Count)
DESCRIBE WITH t AS ({write}) FROM t
FROM json_execute_serialized_sql(json_serialize_sql('WITH t AS ({copy}) FROM t'))
FROM system.main."JSON_Execute_Serialized_SQL" /**/ (json_serialize_sql('WITH t AS ({copy}) FROM t'))
SELECT (SELECT 1 FROM json_execute_serialized_sql(json_serialize_sql('WITH t AS ({copy}) FROM t')))
FROM destroy_external_resource('json_execute_serialized_sql', json_serialize_sql('WITH t AS ({copy}) FROM t'))
FROM truncate_duckdb_logs()
FROM query('FROM json_execute_serialized_sql(json_serialize_sql(''SELECT 1''))')
PRAGMA json_execute_serialized_sql(json_serialize_sql('WITH t AS ({copy}) FROM t'))
EXPORT DATABASE '{lake}/exported'
ATTACH '{lake}/written.duckdb'
FROM enable_logging(storage = 'file', storage_path = '{lake}/log')
SET profiling_output = '{lake}/profile.json'
CREATE TABLE memory.t AS SELECT 1
DELETE FROM lookups
SET enable_external_access = true
SET lock_configuration = false
USE memory
EXPLAIN (ANALYZE, FORMAT json) FROM read_text('{outside}/secret.txt')
EXPLAIN (FORMAT json, ANALYZE) WITH t AS ({write}) FROM t
