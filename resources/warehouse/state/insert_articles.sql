INSERT INTO articles BY NAME
SELECT {columns}, {title_key} AS title_key, event_key
FROM (SELECT *, batch_hour AS source_at, replace(name, '_', ' ') AS title FROM article_changes WHERE change_type = 'update') AS change
SEMI JOIN deciding USING ({row_key_of_changes})
