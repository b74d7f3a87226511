-- The maxima of the titles and pages of one pass: each has all its rows in the same one.
INSERT INTO new_titles
SELECT * FROM states SEMI JOIN renewed USING (project_id)
WHERE hash(title) % {passes} = {number}
QUALIFY row_number() OVER (PARTITION BY project_id, title ORDER BY {newest_state_first}) = 1;

INSERT INTO new_pages
SELECT * FROM states SEMI JOIN renewed USING (project_id)
WHERE is_update AND hash(article_id) % {passes} = {number}
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY {newest_state_first}) = 1
