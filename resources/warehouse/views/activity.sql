-- A move is an event with two halves: an update under the new title and a delete under the old one.
CREATE VIEW main.activity AS
WITH told AS (
  SELECT
    *,
    change_type = 'update' AS is_update,
    event_id IS NOT NULL
      AND count(*) FILTER (WHERE change_type = 'update') OVER (PARTITION BY project_id, event_id) > 0
      AND count(*) FILTER (WHERE change_type = 'delete') OVER (PARTITION BY project_id, event_id) > 0 AS is_move
  FROM (
    SELECT project_id, namespace_id, article_id, event_at, event_id, change_type, previous_version_id, created_at, modified_at,
      editor_is_bot, editor_is_anonymous, is_minor_edit, size_bytes, character_count, previous_character_count
    FROM distinct_changes
  )
),
kinds AS (
  SELECT *, is_update AND NOT is_move AND previous_version_id IS NULL AND created_at = modified_at IS NOT FALSE AS is_creation
  FROM told
)
SELECT
  time_bucket(INTERVAL 1 HOUR, event_at) AS hour_at,
  project_id,
  namespace_id,
  count(*) FILTER (WHERE is_update AND NOT is_move AND NOT is_creation) AS edit_count,
  count(*) FILTER (WHERE is_creation) AS creation_count,
  count(*) FILTER (WHERE change_type = 'delete' AND NOT is_move) AS deletion_count,
  count(*) FILTER (WHERE is_update AND is_move) AS move_count,
  count(*) FILTER (WHERE change_type = 'visibility-change') AS visibility_change_count,
  count(*) FILTER (WHERE is_update AND editor_is_bot) AS bot_count,
  count(*) FILTER (WHERE is_update AND editor_is_anonymous) AS anonymous_count,
  count(*) FILTER (WHERE is_update AND is_minor_edit) AS minor_count,
  TRY_CAST(coalesce(sum(size_bytes) FILTER (WHERE is_update), 0) AS BIGINT) AS size_bytes,
  TRY_CAST(
    coalesce(sum(TRY(character_count - coalesce(previous_character_count, 0))) FILTER (WHERE is_update AND NOT is_move), 0) AS BIGINT
  ) AS added_character_count,
  count(DISTINCT article_id) AS article_count
FROM kinds
GROUP BY ALL
