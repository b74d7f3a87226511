-- Their events, each with its title once, as a file of their hour would bring them. `file_row` says the file as well, by its place in the list.
-- Columns that were declared after a file was written are null.
INSERT INTO article_changes BY NAME
SELECT {columns}, {event_key} AS event_key, list_position($paths, filename) * {rows_of_a_file} + file_row_number AS file_row
FROM (
  SELECT {nothing}, NULL AS filename, NULL AS file_row_number WHERE false
  UNION ALL BY NAME
  FROM read_parquet($paths, hive_partitioning := false, union_by_name := true, filename := true, file_row_number := true)
) AS event
SEMI JOIN live_hours USING (batch_hour, project_id, namespace_id)
QUALIFY row_number() OVER (
  PARTITION BY
    batch_hour, project_id, namespace_id, event_id, replace(name, '_', ' '), CASE WHEN event_id IS NULL THEN {row_digest} END
  ORDER BY event_at DESC, version_id DESC, change_type = 'update' DESC, {row_digest} DESC
) = 1
