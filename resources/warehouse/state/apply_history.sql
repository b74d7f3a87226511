-- After a redo the maxima of these titles and pages are unknown: all their rows compete again.
INSERT INTO fresh
(
  SELECT * FROM states SEMI JOIN redone_titles USING (project_id, title)
  UNION
  SELECT * FROM states SEMI JOIN redone_pages USING (project_id, article_id)
)
EXCEPT
SELECT * FROM fresh
