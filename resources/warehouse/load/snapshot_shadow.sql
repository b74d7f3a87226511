-- Pages and revisions that stand in the files twice are few: they are found by their numbers before anything is sorted.
INSERT INTO internal.shadowed_snapshots
WITH repeated AS (
  SELECT article_id, version_id
  FROM read_parquet({files}, hive_partitioning = false)
  GROUP BY ALL
  HAVING count(*) > 1
),
copies AS (
  SELECT
    article_id,
    version_id,
    event_at,
    change_type <> 'delete' AS is_update,
    {event_key_of_snapshot} AS event_key,
    parse_filename(filename) AS file_name,
    file_row_number AS file_row
  FROM (
    SELECT *, replace(name, '_', ' ') AS title
    FROM read_parquet({files}, filename = true, file_row_number = true, hive_partitioning = false)
  )
  SEMI JOIN repeated USING (article_id, version_id)
)
SELECT {snapshot_id}, {snapshot_version}, file_name, file_row
FROM copies
QUALIFY row_number() OVER (
  PARTITION BY article_id, version_id
  ORDER BY event_at DESC, is_update DESC, event_key DESC, file_name, file_row
) > 1
