-- The kept snapshots of articles that exactness begins with, per project and namespace: the newest one, and each older one from whose
-- boundary covered hours lead up to the newest one's without a break. No row: no snapshot, so only changed pages are known.
SELECT kept.project_id, kept.namespace_id, kept.source_at, kept.whole_from, kept.boundary_hour, kept.is_newest
FROM (
  SELECT
    project_id,
    namespace_id,
    source_at,
    -- a moment knows the events before it: the first one that knows a snapshot whole comes after its newest event.
    -- Python and other clients read no year after 9999
    least(newest_event_at, TIMESTAMPTZ '9999-12-31 23:59:59.999998+00') + INTERVAL 1 MICROSECOND AS whole_from,
    time_bucket(INTERVAL 1 HOUR, boundary_at) AS boundary_hour,
    max(time_bucket(INTERVAL 1 HOUR, boundary_at)) OVER (PARTITION BY project_id, namespace_id) AS newest_hour,
    row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1 AS is_newest
  FROM snapshots
  WHERE table_name = 'snapshot_articles'
) AS kept
LEFT JOIN hours ON NOT is_newest
  AND hours.table_name = 'article_changes' AND hours.state IN ({covered})
  AND hours.project_id = kept.project_id AND hours.namespace_id = kept.namespace_id
  AND hours.batch_hour >= kept.boundary_hour AND hours.batch_hour <= kept.newest_hour
GROUP BY kept.project_id, kept.namespace_id, kept.source_at, kept.whole_from, kept.boundary_hour, newest_hour, is_newest
HAVING is_newest OR count(hours.batch_hour) = date_diff('hour', kept.boundary_hour, newest_hour) + 1
