-- The provisional rows of the newest file. The name decides, so the others are not opened.
CREATE OR REPLACE VIEW internal.live AS
SELECT row.* EXCLUDE (filename)
FROM read_parquet({files}, hive_partitioning = false, filename = true) AS row
SEMI JOIN (SELECT max(file) AS filename FROM glob({files})) AS newest USING (filename)
