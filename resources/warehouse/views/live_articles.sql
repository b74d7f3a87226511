SELECT {columns}
FROM {settled} AS page
ANTI JOIN (SELECT project_id, article_id FROM internal.live WHERE is_left) AS left_page USING (project_id, article_id)
UNION ALL
SELECT {columns}
FROM (SELECT *, batch_hour AS source_at FROM internal.live WHERE is_living)
