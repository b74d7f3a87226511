DELETE FROM internal.shadowed WHERE batch_hour = $hour AND project_id = $project
