-- Rows whose title something new is known of. Of all that the mirror holds one column is read, the keys of titles, and others only of rows that have
-- one of these keys. The keys come without bounds: nearly all there are lie between the least and the greatest of these, and each would be compared
-- with both.
CREATE OR REPLACE TEMP TABLE places AS
SELECT articles.rowid AS place, moved.project_id, article_id, title_key
FROM articles
JOIN (SELECT project_id, title_key | CAST(0 AS UBIGINT) AS title_key FROM moved_titles) AS moved USING (title_key)
