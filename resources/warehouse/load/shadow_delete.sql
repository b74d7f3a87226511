DELETE FROM internal.shadowed WHERE batch_hour = $hour AND list_contains($projects, project_id)
