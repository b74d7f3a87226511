SELECT {columns}
FROM (SELECT *, batch_hour AS source_at FROM entity_changes)
WHERE change_type = 'update'
