-- `near`: living rows, those of all these titles and pages among them. Rows are compared whole here.
CREATE OR REPLACE TEMP TABLE living AS
SELECT * FROM near SEMI JOIN moved_titles USING (project_id, title)
UNION
SELECT * FROM near SEMI JOIN moved_pages USING (project_id, article_id);

-- Both maxima of these titles and pages, and of the other title or page of each living row among them.
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

-- A living row stays where it is, unless it lost or its file was loaded again, perhaps with other content.
CREATE OR REPLACE TEMP TABLE staying AS
SELECT * FROM living SEMI JOIN winning USING ({row_key}) ANTI JOIN advancing USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE leaving AS
SELECT place, project_id, article_id FROM living ANTI JOIN staying USING (place);

CREATE OR REPLACE TEMP TABLE deciding AS
SELECT * FROM winning ANTI JOIN staying USING ({row_key})
