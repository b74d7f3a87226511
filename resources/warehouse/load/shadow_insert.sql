-- All files of a project's hour together: a page that changes its namespace stands in two of them with one revision.
INSERT INTO internal.shadowed
WITH kept AS (
  SELECT batch_hour, project_id, namespace_id, file_row, article_id, version_id, change_type, event_at, event_key
  FROM {changes}
  WHERE batch_hour BETWEEN $first AND $last AND list_contains($projects, project_id)
),
shown AS (
  SELECT batch_hour, project_id, namespace_id, file_row
  FROM kept
  QUALIFY row_number() OVER (
    PARTITION BY batch_hour, project_id, article_id, version_id
    ORDER BY change_type = 'update' DESC, event_at DESC, event_key DESC, namespace_id
  ) = 1
),
rows_of_files AS (
  SELECT batch_hour, project_id, namespace_id, unnest(range(row_count)) AS file_row
  FROM loads
  WHERE table_name = 'article_changes' AND batch_hour BETWEEN $first AND $last AND list_contains($projects, project_id)
    AND (batch_hour >= $cold_until OR list_contains(CAST($gone AS VARCHAR[]), compaction_id) IS NOT TRUE)
)
SELECT batch_hour, project_id, namespace_id, file_row
FROM rows_of_files
ANTI JOIN shown USING (batch_hour, project_id, namespace_id, file_row)
