-- Two lookups of one run may lead to the same page, by two spellings of its title.
INSERT INTO articles BY NAME
SELECT {columns}, {title_key} AS title_key, event_key
FROM (SELECT *, 'update' AS change_type, replace(name, '_', ' ') AS title FROM lookups WHERE is_found AND purpose <> 'watch') AS page
SEMI JOIN deciding USING ({row_key_of_changes})
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY looked_up_at, asked_name) = 1
