-- Most pages that changed are found by their title; a page lives once, so only the others are looked for by their number:
-- those that moved, which are few, and those that are new.
CREATE OR REPLACE TEMP TABLE near AS
SELECT {living}
FROM articles
SEMI JOIN moved_titles USING (title_key);

CREATE OR REPLACE TEMP TABLE elsewhere AS
SELECT rowid AS place
FROM articles
SEMI JOIN (FROM moved_pages ANTI JOIN near USING (project_id, article_id)) AS unseen USING (article_id)
ANTI JOIN near ON articles.rowid = near.place;

INSERT INTO near
SELECT {living}
FROM articles
SEMI JOIN elsewhere ON articles.rowid = elsewhere.place
