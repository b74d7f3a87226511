-- Changes per time span and project, from the ledger, which includes hours in the lake. All but the busiest projects
-- are combined.
WITH counted AS (
  SELECT time_bucket(CAST($1 AS INTERVAL), batch_hour) AS span_at, project_id, sum(row_count - duplicate_count) AS change_count
  FROM loads
  WHERE table_name = 'article_changes'
  GROUP BY ALL
),
busiest AS (
  SELECT project_id FROM counted GROUP BY project_id HAVING sum(change_count) > 0 ORDER BY sum(change_count) DESC, project_id LIMIT $2
)
SELECT span_at, busiest.project_id, CAST(sum(change_count) AS BIGINT)
FROM counted
LEFT JOIN busiest USING (project_id)
GROUP BY ALL
ORDER BY ALL
