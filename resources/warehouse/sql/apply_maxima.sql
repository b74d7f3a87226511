-- Move both maxima, and note which pages may have come to life, changed their row or died by it.
CREATE OR REPLACE TEMP TABLE new_titles AS
SELECT *
FROM (
  SELECT * FROM fresh
  UNION ALL
  SELECT * FROM internal.titles SEMI JOIN fresh USING (project_id, title) ANTI JOIN redone_titles USING (project_id, title)
)
QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_first}) = 1;

CREATE OR REPLACE TEMP TABLE new_pages AS
SELECT *
FROM (
  SELECT * FROM fresh WHERE is_update
  UNION ALL
  SELECT * FROM internal.pages SEMI JOIN fresh USING (project_id, article_id) ANTI JOIN redone_pages USING (project_id, article_id)
)
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_first}) = 1;

-- Where the newest row stays the same, nothing is to be done.
DELETE FROM new_titles USING internal.titles AS old
WHERE {same_title}
  AND NOT EXISTS (FROM redone_titles AS redone WHERE redone.project_id = old.project_id AND redone.title = old.title);

DELETE FROM new_pages USING internal.pages AS old
WHERE {same_page}
  AND NOT EXISTS (FROM redone_pages AS redone WHERE redone.project_id = old.project_id AND redone.article_id = old.article_id);

CREATE OR REPLACE TEMP TABLE moved_titles AS
SELECT project_id, title FROM new_titles UNION SELECT project_id, title FROM redone_titles;

CREATE OR REPLACE TEMP TABLE moved_pages AS
SELECT project_id, article_id FROM new_pages UNION SELECT project_id, article_id FROM redone_pages;

CREATE OR REPLACE TEMP TABLE touched AS
SELECT project_id, article_id FROM moved_pages
UNION
SELECT project_id, article_id FROM new_titles WHERE is_update
UNION
SELECT project_id, article_id FROM internal.titles SEMI JOIN moved_titles USING (project_id, title) WHERE is_update;

DELETE FROM internal.titles AS old USING moved_titles AS moved
WHERE old.project_id = moved.project_id AND old.title = moved.title;
INSERT INTO internal.titles SELECT * FROM new_titles;

DELETE FROM internal.pages AS old USING moved_pages AS moved
WHERE old.project_id = moved.project_id AND old.article_id = moved.article_id;
INSERT INTO internal.pages SELECT * FROM new_pages;

-- Small before large: joined directly, the two maxima would be joined whole.
CREATE OR REPLACE TEMP TABLE touched_pages AS
SELECT * FROM internal.pages SEMI JOIN touched USING (project_id, article_id);

CREATE OR REPLACE TEMP TABLE deciding AS
SELECT touched_pages.*
FROM touched_pages
JOIN internal.titles USING ({row_key})
