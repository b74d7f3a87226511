CREATE OR REPLACE TEMP TABLE winning AS
SELECT *
FROM ({states})
QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1;

DELETE FROM internal.ended_entities;
INSERT INTO internal.ended_entities BY NAME SELECT {state} FROM winning WHERE NOT is_update;

DELETE FROM entities
