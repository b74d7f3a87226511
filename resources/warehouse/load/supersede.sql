-- What is no longer loaded from a compacted file is passed over in it. Those of a snapshot hold one version, and go with it.
INSERT INTO internal.superseded
SELECT DISTINCT file.lake_path, loads.batch_hour, loads.project_id, loads.namespace_id
FROM loads
JOIN compacted_files AS file ON loads.compaction_id = file.compaction_id
WHERE loads.batch_hour IS NOT NULL AND ({condition})
