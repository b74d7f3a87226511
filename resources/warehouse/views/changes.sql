-- name: distinct_changes
-- An event can be in two hourly files; both halves of a move share the event and differ in the title.
CREATE VIEW main.distinct_changes AS
SELECT {change_columns}
FROM article_changes
QUALIFY row_number() OVER (
  PARTITION BY {event}
  ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id
) = 1

-- name: changes_between
CREATE MACRO main.changes_between(since, until) AS TABLE
WITH {captured}
SELECT *
FROM article_changes
WHERE event_at >= CAST(since AS TIMESTAMPTZ) AND event_at < CAST(until AS TIMESTAMPTZ) AND (SELECT complaint IS NULL FROM captured)
QUALIFY row_number() OVER (
  PARTITION BY {event}
  ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id
) = 1
ORDER BY event_at, project_id, article_id, version_id, change_type

-- name: most_edited
CREATE VIEW main.most_edited AS
SELECT
  project_id,
  namespace_id,
  article_id,
  arg_max(name, (event_at, version_id)) AS name,
  count(*) AS edit_count,
  count(DISTINCT editor_name) AS editor_count,
  count(*) FILTER (WHERE editor_is_bot) AS bot_count,
  min(event_at) AS first_edit_at,
  max(event_at) AS last_edit_at
FROM (
  SELECT DISTINCT ON (project_id, article_id, version_id) project_id, namespace_id, article_id, version_id, name, event_at, editor_name, editor_is_bot
  FROM article_changes
  WHERE change_type = 'update'
  ORDER BY event_at
)
GROUP BY project_id, namespace_id, article_id
ORDER BY edit_count DESC, last_edit_at DESC, project_id, article_id

-- name: activity
-- A move is an event with two halves: an update of the new title and a delete of the old one.
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

-- name: likely_reverted
CREATE VIEW main.likely_reverted AS
SELECT project_id, namespace_id, article_id, version_id, name, event_at, revertrisk_probability, editor_name, editor_is_anonymous,
  version_comment, url
FROM distinct_changes
WHERE change_type = 'update' AND revertrisk_prediction
ORDER BY revertrisk_probability DESC, event_at DESC, project_id, article_id

-- name: actual_reverts
-- MediaWiki tags both sides of a revert. A revision can have several events, and gains tags: the newest event has them
-- all.
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

-- name: vandalism_candidates
-- Signs are counted, not weighted: the analyst decides which of them matter.
CREATE VIEW main.vandalism_candidates AS
SELECT *
FROM (
  SELECT
    project_id,
    namespace_id,
    article_id,
    version_id,
    name,
    event_at,
    (
      CAST(coalesce(revertrisk_prediction OR revertrisk_probability >= 0.9 OR damaging_prediction, false) AS BIGINT)
      + CAST(coalesce(goodfaith_prediction = false, false) AS BIGINT)
      + CAST(coalesce(editor_is_anonymous OR editor_edit_count < 10, false) AS BIGINT)
      + CAST(coalesce(previous_character_count >= 500 AND character_count < previous_character_count / 2, false) AS BIGINT)
      + CAST(coalesce(version_comment = '', true) AND NOT coalesce(is_minor_edit, false) AS BIGINT)
    ) AS sign_count,
    revertrisk_probability,
    damaging_probability,
    editor_name,
    editor_is_anonymous,
    editor_edit_count,
    TRY(character_count - previous_character_count) AS added_character_count,
    version_comment,
    url
  FROM distinct_changes
  WHERE change_type = 'update' AND NOT coalesce(editor_is_bot, false)
)
WHERE sign_count >= 2
ORDER BY sign_count DESC, revertrisk_probability DESC NULLS LAST, event_at DESC, project_id, article_id

-- name: deleted_articles
-- A move sends the same event for the old title, but its page exists under the new one; so does a restored page.
CREATE VIEW main.deleted_articles AS
SELECT project_id, namespace_id, article_id, replace(name, '_', ' ') AS name, version_id, event_at AS deleted_at, event_id
FROM article_changes
ANTI JOIN articles USING (project_id, article_id)
WHERE change_type = 'delete'
QUALIFY row_number() OVER (PARTITION BY project_id, article_id ORDER BY event_at DESC, version_id DESC, batch_hour, namespace_id, name) = 1
ORDER BY deleted_at DESC, project_id, article_id

-- name: article_history
-- A number is a page id, a text a title. A title selects every page that has had it, and its deletes. If only another
-- spelling of the title is known, the query fails and names it.
CREATE MACRO main.article_history(project, page) AS TABLE
WITH {captured},
pages AS (
  SELECT DISTINCT article_id
  FROM (
    SELECT article_id, name FROM article_changes WHERE project_id = project
    UNION ALL
    SELECT article_id, name FROM articles WHERE project_id = project
    UNION ALL
    SELECT article_id, name FROM internal.snapshot_pages WHERE project_id = project
  )
  WHERE CASE
    WHEN typeof(page) = 'VARCHAR' THEN replace(name, '_', ' ') = replace(CAST(page AS VARCHAR), '_', ' ')
    ELSE article_id = TRY_CAST(page AS BIGINT)
  END
),
told AS (
  SELECT {columns}, false AS is_from_snapshot FROM {changes} WHERE project_id = project
  UNION ALL
  SELECT {columns}, true AS is_from_snapshot FROM internal.snapshot_pages WHERE project_id = project
)
SELECT {columns}
FROM (
  SELECT *
  FROM told
  SEMI JOIN pages USING (article_id)
  QUALIFY row_number() OVER (
    PARTITION BY {event}
    ORDER BY is_from_snapshot, source_at, namespace_id
  ) = 1
)
UNION ALL BY NAME
SELECT {complaints}
FROM (
  FROM captured
  UNION ALL
{unmirrored}  UNION ALL
{other_spelling})
WHERE complaint IS NOT NULL
ORDER BY event_at, version_id, change_type, name
