-- MediaWiki tags both sides of a revert. A revision may come in several events, and gains tags: the newest event has them all.
CREATE VIEW main.actual_reverts AS
SELECT
  project_id,
  namespace_id,
  article_id,
  version_id,
  name,
  event_at,
  list_contains(version_tags, 'mw-reverted') AS is_reverted,
  CASE
    WHEN list_contains(version_tags, 'mw-rollback') THEN 'rollback'
    WHEN list_contains(version_tags, 'mw-undo') THEN 'undo'
    WHEN list_contains(version_tags, 'mw-manual-revert') THEN 'manual-revert'
  END AS revert_method,
  previous_version_id,
  revertrisk_probability,
  editor_name,
  editor_is_anonymous,
  version_comment,
  url
FROM (
  SELECT *
  FROM distinct_changes
  WHERE change_type = 'update'
    AND list_has_any(version_tags, ['mw-reverted', 'mw-rollback', 'mw-undo', 'mw-manual-revert'])
  QUALIFY row_number() OVER (
    PARTITION BY project_id, article_id, version_id
    ORDER BY event_at DESC, batch_hour DESC, namespace_id, name
  ) = 1
)
ORDER BY event_at DESC, project_id, article_id, version_id
