CREATE OR REPLACE TEMP TABLE deciding AS
SELECT new_titles.* FROM new_titles JOIN new_pages USING ({row_key});

DELETE FROM internal.titles WHERE project_id IN (SELECT project_id FROM renewed);
INSERT INTO internal.titles SELECT * FROM new_titles ANTI JOIN deciding USING ({row_key});

DELETE FROM internal.pages WHERE project_id IN (SELECT project_id FROM renewed);
INSERT INTO internal.pages SELECT * FROM new_pages ANTI JOIN deciding USING ({row_key});

DROP TABLE new_titles;
DROP TABLE new_pages;

DELETE FROM articles WHERE project_id IN (SELECT project_id FROM renewed)
