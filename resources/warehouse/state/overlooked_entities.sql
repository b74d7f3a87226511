-- As for pages, but the identifier of an entity never changes.
WITH taken AS (
  FROM ({states_of_changes})
  {of_hours}
  WHERE source_at BETWEEN $first AND $last
),
newest AS MATERIALIZED (
  FROM taken QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1
),
near AS MATERIALIZED (SELECT project_id, entity_id, event_at FROM entities SEMI JOIN newest USING (entity_id)),
compared AS (
  SELECT
    newest.project_id,
    newest.entity_id AS title,
    NOT newest.is_update AS is_deleted,
    newest.event_at,
    near.event_at AS held_at,
    ended.event_at AS ended_at
  FROM newest
  LEFT JOIN near USING (project_id, entity_id)
  LEFT JOIN internal.ended_entities AS ended USING (project_id, entity_id)
)
{overlooked}
