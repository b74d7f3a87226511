-- The entities that pending files say something of, and those that were decided by a row of one of these very files, which is
-- possible only when it was loaded again.
CREATE OR REPLACE TEMP TABLE touched AS
SELECT project_id, entity_id FROM entity_changes AS change
SEMI JOIN pending ON change.batch_hour = pending.source_at
  AND change.project_id = pending.project_id AND change.namespace_id = pending.namespace_id
UNION
SELECT project_id, entity_id FROM entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
UNION
SELECT project_id, entity_id FROM internal.ended_entities SEMI JOIN pending USING (source_at, project_id, namespace_id)
