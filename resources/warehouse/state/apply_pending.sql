-- Rows to apply: the files that are pending in the ledger, their changes that can decide, and each title and page that
-- a row of one of these files decided before. The latter occur only if a file was reloaded. Projects in `renewed` are
-- rebuilt separately.
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
