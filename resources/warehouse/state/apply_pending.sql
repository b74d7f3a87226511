-- What is to be taken in: the files that the ledger marks as pending, the changes in them that can decide, and every
-- title and page that was decided by a row of one of these very files, which is possible only when it was loaded again.
-- Projects that are made anew (`renewed`) take in everything of theirs by themselves.
CREATE OR REPLACE TEMP TABLE advancing AS
SELECT source_at, project_id, namespace_id FROM pending ANTI JOIN renewed USING (project_id);

CREATE OR REPLACE TEMP TABLE fresh AS
SELECT * FROM {candidates} AS candidate SEMI JOIN advancing USING (source_at, project_id, namespace_id)
UNION ALL
SELECT * FROM internal.looked_up SEMI JOIN advancing USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone_live AS
SELECT project_id, replace(name, '_', ' ') AS title, article_id
FROM articles
SEMI JOIN advancing USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone_titles AS
SELECT project_id, title FROM redone_live
UNION ALL
SELECT project_id, title FROM internal.titles SEMI JOIN advancing USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone_pages AS
SELECT project_id, article_id FROM redone_live
UNION ALL
SELECT project_id, article_id FROM internal.pages SEMI JOIN advancing USING (source_at, project_id, namespace_id)
