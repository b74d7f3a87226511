-- The rule of `entities` over what had happened before a moment. Of the snapshots the newest counts that was whole by then.
CREATE MACRO main.entities_at(moment) AS TABLE
FROM ({rows})
SEMI JOIN (
  FROM (
    FROM ({states})
    QUALIFY row_number() OVER (PARTITION BY project_id, entity_id ORDER BY {newest_first}) = 1
  )
  WHERE is_update
) AS winner USING (project_id, namespace_id, entity_id, event_at, source_at)
