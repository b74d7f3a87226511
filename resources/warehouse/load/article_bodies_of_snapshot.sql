-- What is the same for a whole version is a constant, so that a question for something else opens none of its files.
SELECT {project_id} AS project_id, article_id, version_id, {source_at} AS source_at, CAST(NULL AS TIMESTAMPTZ) AS batch_hour, html, wikitext
FROM {rows}
