-- name: article_bodies
-- Streams: no body is ever sorted or grouped. The hour is told by the folder, so that a filter on it leaves the other
-- files unopened; filters on project, page and revision reach the statistics of the files that are opened. Columns are
-- found by name and declared in every version of the files, so the first file's schema stands for all.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM (
  SELECT
    project_id,
    article_id,
    version_id,
    CAST(concat("date", ' ', "hour", ':00:00+00') AS TIMESTAMPTZ) AS batch_hour,
    html,
    wikitext,
    namespace_id,
    file_row_number
  FROM read_parquet(
    {files}, hive_partitioning = true, hive_types = {'date': VARCHAR, 'hour': VARCHAR}, file_row_number = true
  )
) AS file
ANTI JOIN (FROM internal.hidden_rows WHERE file_row IS NOT NULL AND starts_with(lake_path, 'article_changes/')) AS hidden ON
  file.batch_hour = hidden.batch_hour
  AND file.project_id = hidden.project_id
  AND file.namespace_id = hidden.namespace_id
  AND file.file_row_number = hidden.file_row

-- name: article_bodies_compacted
-- Few sorted files: what is asked for by page or revision is in one row group of each at the most, and filters reach their statistics, those of
-- joins as well.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false, filename = true) AS file
ANTI JOIN (FROM internal.hidden_rows WHERE file_row IS NOT NULL AND starts_with(lake_path, 'article_changes/')) AS hidden ON
  file.batch_hour = hidden.batch_hour
  AND file.project_id = hidden.project_id
  AND file.namespace_id = hidden.namespace_id
  AND file.file_row = hidden.file_row
{superseded}

-- name: article_bodies_looked_up
-- Two lookups of one run may lead to the same page. Which of them is shown is told by the table, so that no body is ever sorted or
-- grouped; the first file's schema stands for all, so that a question for something else opens no other.
SELECT project_id, article_id, version_id, source_at, CAST(NULL AS TIMESTAMPTZ) AS batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false) AS file
SEMI JOIN (
  FROM lookups
  WHERE is_found AND purpose <> 'watch'
  QUALIFY row_number() OVER (PARTITION BY project_id, article_id, version_id, source_at ORDER BY looked_up_at, asked_name) = 1
) AS shown USING (project_id, source_at, asked_name, looked_up_at)

-- name: article_bodies_live
-- Bodies of provisional rows, which say in which file of the stream they are. A page that changed twice within an hour and a revision has one of them.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false, filename = true, file_row_number = true) AS file
SEMI JOIN (
  SELECT lake_file AS filename, lake_row AS file_row_number FROM internal.live WHERE has_body
) AS row USING (filename, file_row_number)
