-- The changes of visibility of an hour, which its file lacks: those that are not kept so far, and that the file does not have after all.
INSERT INTO visibility_changes BY NAME
SELECT {columns}
FROM {rows} AS event
SEMI JOIN comparing USING (project_id, namespace_id)
ANTI JOIN (
  SELECT project_id, namespace_id, event_id, name FROM visibility_changes WHERE batch_hour = $hour
  UNION ALL
  SELECT project_id, namespace_id, event_id, name FROM article_changes WHERE batch_hour = $hour AND change_type = 'visibility-change'
) AS known USING (project_id, namespace_id, event_id, name)
WHERE batch_hour = $hour AND change_type = 'visibility-change'
QUALIFY row_number() OVER (PARTITION BY project_id, namespace_id, event_id, name ORDER BY event_offset) = 1
