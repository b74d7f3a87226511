-- What `apply_maxima` found: rows that no longer count go, and of both maxima is kept what is not the same row.
DELETE FROM internal.titles AS old
USING (SELECT project_id, title FROM moved_titles UNION SELECT project_id, title FROM new_titles) AS moved
WHERE old.project_id = moved.project_id AND old.title = moved.title;
INSERT INTO internal.titles SELECT * FROM new_titles ANTI JOIN winning USING ({row_key});

DELETE FROM internal.pages AS old
USING (SELECT project_id, article_id FROM moved_pages UNION SELECT project_id, article_id FROM new_pages) AS moved
WHERE old.project_id = moved.project_id AND old.article_id = moved.article_id;
INSERT INTO internal.pages SELECT * FROM new_pages ANTI JOIN winning USING ({row_key});

DELETE FROM articles WHERE rowid IN (SELECT place FROM leaving)
