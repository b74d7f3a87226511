-- Like state/near.sql, but only rows that are not older than everything new: no other can stay, or decide anything. Of those it is enough to know
-- which pages they are of.
CREATE OR REPLACE TEMP TABLE near AS
SELECT {living}
FROM articles
SEMI JOIN places ON articles.rowid = places.place
WHERE event_at >= {first_at};

CREATE OR REPLACE TEMP TABLE elsewhere AS
SELECT {living}
FROM articles
SEMI JOIN moved_pages USING (article_id)
ANTI JOIN near ON articles.rowid = near.place
WHERE event_at >= {first_at};

INSERT INTO near FROM elsewhere;

-- Of a page that was deleted under a title of the same key, the title is not read: two titles of one page do not share a key.
CREATE OR REPLACE TEMP TABLE older AS
SELECT place, project_id, article_id, deleted.article_id IS NOT NULL AS is_found
FROM places
LEFT JOIN (
  SELECT DISTINCT project_id, article_id, {title_key} AS title_key FROM fresh WHERE NOT is_update
) AS deleted USING (project_id, article_id, title_key)
ANTI JOIN moved_pages USING (project_id, article_id)
ANTI JOIN near USING (place);

-- A page that something newer is known of loses its row if it has one, so nobody needs to look for the row.
CREATE OR REPLACE TEMP TABLE outlived AS
SELECT project_id, article_id FROM moved_pages ANTI JOIN near USING (project_id, article_id)
UNION ALL
SELECT project_id, article_id FROM older WHERE is_found
UNION ALL
SELECT project_id, article_id
FROM (
  SELECT project_id, article_id, replace(name, '_', ' ') AS title
  FROM articles
  SEMI JOIN (FROM older WHERE NOT is_found) AS unclear ON articles.rowid = unclear.place
)
SEMI JOIN moved_titles USING (project_id, title)
