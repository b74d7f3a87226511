SELECT min(batch_hour)
FROM (SELECT DISTINCT project_id, namespace_id FROM hours WHERE table_name = 'article_changes') AS pair
CROSS JOIN generate_series(CAST($earliest AS TIMESTAMPTZ), CAST($now AS TIMESTAMPTZ), INTERVAL 1 HOUR) AS hour(batch_hour)
ANTI JOIN (
  SELECT batch_hour, project_id, namespace_id FROM hours WHERE table_name = 'article_changes' AND state IN ({covered})
) AS covered USING (batch_hour, project_id, namespace_id)
