-- Signs are counted, not weighed: which of them matter is for whoever looks.
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
