-- Titles and pages with new rows. Long tables are filtered by short keys first; complete rows are compared only among
-- the few matches, because two titles can share a `title_key`, and two projects a page id.
CREATE OR REPLACE TEMP TABLE moved_titles AS
SELECT project_id, title, {title_key} AS title_key
FROM (SELECT project_id, title FROM fresh UNION SELECT project_id, title FROM redone_titles);

CREATE OR REPLACE TEMP TABLE moved_pages AS
SELECT project_id, article_id FROM fresh WHERE is_update UNION SELECT project_id, article_id FROM redone_pages;

-- Most changed pages are found by their title. A page has only one row, so only the others are searched by page id: the
-- few that were moved, and new ones.
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
SEMI JOIN elsewhere ON articles.rowid = elsewhere.place;

-- `near` has current rows that include those of all these titles and pages. Complete rows are compared here.
CREATE OR REPLACE TEMP TABLE living AS
SELECT * FROM near SEMI JOIN moved_titles USING (project_id, title)
UNION
SELECT * FROM near SEMI JOIN moved_pages USING (project_id, article_id);

-- Both maxima of these titles and pages, and of the other title or page of each of their current rows.
CREATE OR REPLACE TEMP TABLE new_titles AS
SELECT *
FROM (
  SELECT * FROM fresh
  UNION ALL
  SELECT * EXCLUDE (place) FROM living ANTI JOIN redone_titles USING (project_id, title)
  UNION ALL
  SELECT *
  FROM internal.titles
  SEMI JOIN moved_titles USING (project_id, title)
  ANTI JOIN redone_titles USING (project_id, title)
)
QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_state_first}) = 1;

CREATE OR REPLACE TEMP TABLE new_pages AS
SELECT *
FROM (
  SELECT * FROM fresh WHERE is_update
  UNION ALL
  SELECT * EXCLUDE (place) FROM living ANTI JOIN redone_pages USING (project_id, article_id)
  UNION ALL
  SELECT *
  FROM internal.pages
  SEMI JOIN moved_pages USING (project_id, article_id)
  ANTI JOIN redone_pages USING (project_id, article_id)
)
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_state_first}) = 1;

CREATE OR REPLACE TEMP TABLE winning AS
SELECT new_titles.* FROM new_titles JOIN new_pages USING ({row_key});

-- A current row stays in place, unless it lost, or its file was reloaded, perhaps with other content.
CREATE OR REPLACE TEMP TABLE staying AS
SELECT * FROM living SEMI JOIN winning USING ({row_key}) ANTI JOIN advancing USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE leaving AS
SELECT place, project_id, article_id FROM living ANTI JOIN staying USING (place);

CREATE OR REPLACE TEMP TABLE deciding AS
SELECT * FROM winning ANTI JOIN staying USING ({row_key})
