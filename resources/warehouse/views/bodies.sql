-- name: article_bodies_looked_up
-- Two lookups of one run may find the same page. The table `lookups` decides which of them is shown, so no body is ever
-- sorted or grouped. The schema of the first file is used for all, so queries for other pages open no other file.
SELECT project_id, article_id, version_id, source_at, CAST(NULL AS TIMESTAMPTZ) AS batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false) AS file
SEMI JOIN (
  FROM lookups
  WHERE is_found AND purpose <> 'watch'
  QUALIFY row_number() OVER (PARTITION BY project_id, article_id, version_id, source_at ORDER BY looked_up_at, asked_name) = 1
) AS shown USING (project_id, source_at, asked_name, looked_up_at)
