-- Bodies of provisional rows, which say in which file of the stream they are. A page that changed twice within an hour and a revision has one of them.
SELECT project_id, article_id, version_id, batch_hour AS source_at, batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false, filename = true, file_row_number = true) AS file
SEMI JOIN (
  SELECT lake_file AS filename, lake_row AS file_row_number FROM internal.live WHERE has_body
) AS row USING (filename, file_row_number)
