CREATE OR REPLACE TEMP TABLE winning AS
SELECT *
FROM ({states})
SEMI JOIN touched USING (project_id, entity_id)
QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1;

DELETE FROM internal.ended_entities AS old
USING touched
WHERE old.project_id = touched.project_id AND old.entity_id = touched.entity_id;

INSERT INTO internal.ended_entities BY NAME
SELECT project_id, namespace_id, entity_id, source_at FROM winning WHERE NOT is_update;

DELETE FROM entities AS old
USING touched
WHERE old.project_id = touched.project_id AND old.entity_id = touched.entity_id
