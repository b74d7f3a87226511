-- The lake files that are read: those loaded and not compacted, and the compacted ones.
SELECT lake_path, lake_bytes, false AS is_compacted FROM loads WHERE compaction_id IS NULL
UNION ALL
SELECT lake_path, lake_bytes, true FROM compacted_files
