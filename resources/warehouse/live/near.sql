-- The same of rows that are not older than everything new: those alone can stay, or decide anything. Of the others it is enough to know which
-- they are, and most of that are the keys. An open file reads few columns, whatever the mirror holds: the moments of old row groups are not
-- looked at, nor the texts of pages that are found by their number.
CREATE OR REPLACE TEMP TABLE places AS
SELECT rowid AS place, project_id, article_id, title_key
FROM articles
SEMI JOIN moved_titles USING (title_key);

CREATE OR REPLACE TEMP TABLE elsewhere AS
SELECT rowid AS place, project_id, article_id, CAST(NULL AS UBIGINT) AS title_key
FROM articles
SEMI JOIN (FROM moved_pages ANTI JOIN places USING (project_id, article_id)) AS unseen USING (article_id)
ANTI JOIN places ON articles.rowid = places.place;

INSERT INTO places FROM elsewhere;

CREATE OR REPLACE TEMP TABLE near AS
SELECT {living}
FROM articles
SEMI JOIN places ON articles.rowid = places.place
WHERE event_at >= {first_at};

-- Of a page that was deleted under a title of the same key, the title is not read: two titles of one page do not share a key.
CREATE OR REPLACE TEMP TABLE older AS
SELECT place, project_id, article_id, moved_pages.article_id IS NOT NULL OR deleted.article_id IS NOT NULL AS is_found
FROM places
LEFT JOIN moved_pages USING (project_id, article_id)
LEFT JOIN (
  SELECT DISTINCT project_id, article_id, {title_key} AS title_key FROM fresh WHERE NOT is_update
) AS deleted USING (project_id, article_id, title_key)
ANTI JOIN near USING (place);

CREATE OR REPLACE TEMP TABLE outlived AS
SELECT project_id, article_id FROM older WHERE is_found
UNION ALL
SELECT project_id, article_id
FROM (
  SELECT project_id, article_id, replace(name, '_', ' ') AS title
  FROM articles
  SEMI JOIN (FROM older WHERE NOT is_found) AS unclear ON articles.rowid = unclear.place
)
SEMI JOIN moved_titles USING (project_id, title)
