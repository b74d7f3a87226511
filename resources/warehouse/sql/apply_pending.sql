-- What is to be taken in: the files that the ledger marks as pending, the changes in them that can decide, and every
-- title and page that was decided by a row of one of these very files, which is possible only when it was loaded again.
CREATE OR REPLACE TEMP TABLE pending AS
SELECT batch_hour, project_id, namespace_id
FROM loads
WHERE table_name = 'article_changes' AND applied_at IS NULL;

CREATE OR REPLACE TEMP TABLE fresh AS
SELECT * FROM internal.candidates SEMI JOIN pending USING (batch_hour, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone_titles AS
SELECT project_id, title FROM internal.titles SEMI JOIN pending USING (batch_hour, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone_pages AS
SELECT project_id, article_id FROM internal.pages SEMI JOIN pending USING (batch_hour, project_id, namespace_id);
