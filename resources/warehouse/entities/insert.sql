INSERT INTO entities BY NAME
FROM ({chosen})
SEMI JOIN (FROM winning WHERE is_update) AS winner USING (project_id, namespace_id, entity_id, event_at, source_at)
