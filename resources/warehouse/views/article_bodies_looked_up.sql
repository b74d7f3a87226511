SELECT project_id, article_id, version_id, source_at, CAST(NULL AS TIMESTAMPTZ) AS batch_hour, html, wikitext
FROM read_parquet({files}, hive_partitioning = false, union_by_name = true)
WHERE is_found AND purpose <> 'watch'
QUALIFY row_number() OVER (PARTITION BY project_id, article_id, version_id, source_at ORDER BY looked_up_at) = 1
