-- Events of an hour in the stream and in its files, for each project and namespace in `compared`. A file may lack an
-- event that a newer event of the same title superseded, and either side may lack page text. Neither is a difference.
WITH streamed AS ({streamed}),
filed AS ({filed}),
newest AS (SELECT project_id, title, max(event.event_at) AS newest_at FROM filed GROUP BY project_id, title),
pair AS (
  SELECT
    project_id,
    namespace_id,
    coalesce(filed.event, streamed.event) AS event,
    streamed.event IS NOT NULL AS is_streamed,
    filed.event IS NOT NULL AS is_filed,
    list_filter({differing}, lambda one: one IS NOT NULL) AS columns,
    newest_at
  FROM streamed
  FULL JOIN filed USING (project_id, namespace_id, title, mark)
  LEFT JOIN newest USING (project_id, title)
),
judged AS (
  SELECT
    *,
    CASE
      WHEN NOT is_filed AND newest_at > event.event_at THEN NULL
      WHEN NOT is_filed THEN 'only in the stream'
      WHEN NOT is_streamed THEN 'only in the file'
      WHEN len(columns) > 0 THEN 'different'
    END AS difference
  FROM pair
  JOIN compared USING (project_id, namespace_id)
  WHERE event.event_at >= compared_from AND event.event_at < compared_until
)
SELECT
  compared.*,
  count(*) FILTER (is_streamed),
  count(*) FILTER (is_filed),
  count(*) FILTER (difference = 'only in the stream'),
  count(*) FILTER (difference = 'only in the file'),
  count(*) FILTER (difference = 'different'),
  list({'difference': difference, 'name': event.name, 'event_id': event.event_id, 'columns': columns} ORDER BY event) FILTER (difference IS NOT NULL)
FROM compared
LEFT JOIN judged USING (project_id, namespace_id)
GROUP BY ALL
ORDER BY ALL
