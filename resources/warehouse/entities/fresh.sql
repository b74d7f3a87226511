-- What is to be taken in: the changes of pending files, and every entity that was decided by a row of one of these very files, which
-- is possible only when it was loaded again. The other rows of such an entity compete again as well.
CREATE OR REPLACE TEMP TABLE fresh AS
SELECT * FROM ({states_of_changes}) SEMI JOIN pending USING (source_at, project_id, namespace_id);

CREATE OR REPLACE TEMP TABLE redone AS
SELECT project_id, entity_id FROM entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
UNION
SELECT project_id, entity_id FROM internal.ended_entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
UNION
-- of files that were made before these columns were
SELECT project_id, entity_id FROM internal.ended_entities SEMI JOIN fresh USING (project_id, entity_id) WHERE event_at IS NULL
