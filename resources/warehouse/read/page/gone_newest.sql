SELECT project_id, name, is_move, event_at
FROM ({gone})
ORDER BY event_at DESC, project_id, name
LIMIT $2
