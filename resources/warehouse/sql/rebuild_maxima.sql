DELETE FROM internal.titles;
INSERT INTO internal.titles
SELECT * FROM internal.candidates
QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_first}) = 1;

DELETE FROM internal.pages;
INSERT INTO internal.pages
SELECT * FROM internal.candidates WHERE is_update
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_first}) = 1;

CREATE OR REPLACE TEMP TABLE deciding AS
SELECT titles.*
FROM internal.titles
JOIN internal.pages USING ({row_key})
