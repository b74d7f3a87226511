CREATE OR REPLACE TEMP TABLE touched AS
SELECT project_id, entity_id FROM fresh UNION FROM redone;

-- The rows that decided before, with their rowid.
CREATE OR REPLACE TEMP TABLE deciding_before AS
SELECT {state}, true AS is_update, rowid AS place FROM entities SEMI JOIN touched USING (project_id, entity_id)
UNION ALL
SELECT {state}, false AS is_update, rowid AS place FROM internal.ended_entities SEMI JOIN touched USING (project_id, entity_id);

CREATE OR REPLACE TEMP TABLE winning AS
SELECT *
FROM (
  SELECT {state}, is_update, NULL AS place FROM fresh
  UNION ALL
  SELECT {state}, is_update, place FROM deciding_before ANTI JOIN redone USING (project_id, entity_id)
  UNION ALL
  SELECT {state}, is_update, NULL AS place FROM ({states_of_redone})
)
QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}, place NULLS LAST) = 1;

-- A row that still decides stays in place.
DELETE FROM deciding_before USING winning
WHERE deciding_before.place = winning.place AND deciding_before.is_update = winning.is_update;
DELETE FROM winning WHERE place IS NOT NULL;

DELETE FROM entities WHERE rowid IN (SELECT place FROM deciding_before WHERE is_update);
DELETE FROM internal.ended_entities WHERE rowid IN (SELECT place FROM deciding_before WHERE NOT is_update);
INSERT INTO internal.ended_entities BY NAME SELECT {state} FROM winning WHERE NOT is_update
