-- The events of both sides. A file may have lost those of which it has a newer one of the same title. A body that one side does not keep is no difference.
CREATE OR REPLACE TEMP TABLE compared AS
SELECT
  pair.*,
  CASE
    WHEN NOT is_filed AND newest_at > event_at THEN NULL
    WHEN NOT is_filed THEN '{only_in_stream}'
    WHEN NOT is_streamed THEN '{only_in_file}'
    WHEN is_other THEN '{different}'
  END AS difference,
  row_number() OVER (PARTITION BY project_id, namespace_id, difference ORDER BY event_at, title, mark) AS place
FROM (
  SELECT
    project_id,
    namespace_id,
    title,
    mark,
    if(filed.content IS NULL, streamed, filed) AS event,
    coalesce(filed.event_at, streamed.event_at) AS event_at,
    streamed.content IS NOT NULL AS is_streamed,
    filed.content IS NOT NULL AS is_filed,
    streamed.content <> filed.content OR streamed.html <> filed.html OR streamed.wikitext <> filed.wikitext AS is_other,
    newest_at,
    {'filename': streamed.filename, 'file_row_number': streamed.file_row_number} AS streamed_row,
    {'filename': filed.filename, 'file_row_number': filed.file_row_number} AS filed_row
  FROM streamed
  FULL JOIN filed USING (project_id, namespace_id, title, mark)
  LEFT JOIN (SELECT project_id, title, max(event_at) AS newest_at FROM filed GROUP BY ALL) AS newest USING (project_id, title)
) AS pair
JOIN comparing USING (project_id, namespace_id)
WHERE event_at >= compared_from AND event_at < compared_until
