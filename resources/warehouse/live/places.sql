-- The rows of titles that something new is known of. One column is read of the whole mirror, the keys of titles; the others only where a key is found.
-- `| 0` hides from DuckDB the least and the greatest key that are searched for: it would compare every key with both, and nearly all lie between them.
CREATE OR REPLACE TEMP TABLE places AS
SELECT articles.rowid AS place, moved.project_id, article_id, title_key
FROM articles
JOIN (SELECT project_id, title_key | CAST(0 AS UBIGINT) AS title_key FROM moved_titles) AS moved USING (title_key)
