CREATE OR REPLACE TEMP TABLE comparisons AS
SELECT
  CAST($hour AS TIMESTAMPTZ) AS batch_hour,
  comparing.project_id,
  comparing.namespace_id,
  digest,
  comparing.compared_from,
  comparing.compared_until,
  count(*) FILTER (is_streamed) AS stream_count,
  count(*) FILTER (is_filed) AS file_count,
  count(*) FILTER (difference = '{only_in_stream}') AS only_in_stream_count,
  count(*) FILTER (difference = '{only_in_file}') AS only_in_file_count,
  count(*) FILTER (difference = '{different}') AS different_count,
  count(*) FILTER (is_streamed AND NOT is_filed AND difference IS NULL) AS superseded_count,
  coalesce(
    list(
      {
        'difference': difference,
        'event_id': event.event_id,
        'name': event.name,
        'article_id': event.article_id,
        'version_id': event.version_id,
        'change_type': event.change_type,
        'event_at': event.event_at,
        'columns': columns
      }
      ORDER BY difference, place
    ) FILTER (difference IS NOT NULL AND place <= {examples}),
    []
  ) AS examples,
  CAST($now AS TIMESTAMPTZ) AS compared_at
FROM comparing
LEFT JOIN compared USING (project_id, namespace_id)
LEFT JOIN other_columns USING (project_id, namespace_id, title, mark)
GROUP BY ALL
