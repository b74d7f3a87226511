-- The worst state in each time span, for the projects with the most missing hours, then the busiest.
WITH counted AS (
  SELECT
    project_id,
    namespace_id,
    time_bucket(CAST($1 AS INTERVAL), batch_hour) AS span_at,
    count(*) FILTER (WHERE state IN ('missing', 'past_retention')) AS gap_count,
    count(*) FILTER (WHERE state = 'loaded') AS loaded_count,
    coalesce(sum(row_count), 0) AS row_count,
    CASE
      WHEN bool_or(state = 'past_retention') THEN 'past_retention'
      WHEN bool_or(state = 'missing') THEN 'missing'
      WHEN bool_or(state = 'loaded') THEN 'loaded'
      WHEN bool_or(state = 'empty') THEN 'empty'
      WHEN bool_or(state = 'absent') THEN 'absent'
      ELSE 'not_yet'
    END AS state
  FROM hours
  WHERE table_name = 'article_changes'
  GROUP BY ALL
),
shown AS (
  SELECT project_id, namespace_id, CAST(sum(gap_count) AS BIGINT) AS gaps, CAST(sum(loaded_count) AS BIGINT) AS loaded, sum(row_count) AS changes
  FROM counted
  GROUP BY ALL
  ORDER BY gaps DESC, changes DESC, project_id, namespace_id
  LIMIT $2
)
SELECT project_id, namespace_id, span_at, state, gaps, loaded, changes
FROM counted
JOIN shown USING (project_id, namespace_id)
ORDER BY gaps DESC, changes DESC, project_id, namespace_id, span_at
