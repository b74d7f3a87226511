-- The updates of hours and of kept snapshots, whole.
{rows_of_changes}
UNION ALL
SELECT {columns}
FROM (
  SELECT entity.*, kept.source_at
  FROM snapshot_entities AS entity
  JOIN snapshots AS kept ON entity.snapshot_id = kept.snapshot_id AND entity.snapshot_version = kept.snapshot_version
  WHERE kept.table_name = 'snapshot_entities' AND entity.change_type = 'update'
)
