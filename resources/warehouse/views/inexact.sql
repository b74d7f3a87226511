  -- An error, rather than pages that may be too few, for a moment before all of them are known; `inexact := true` accepts them.
  SELECT
    CASE
      WHEN inexact IS NOT TRUE AND count(*) FILTER (is_inexact) > 0
        THEN CAST(error(concat(
          'articles_at is not exact at ', coalesce(CAST(CAST(moment AS TIMESTAMPTZ) AS VARCHAR), 'a moment that is null'), '. ',
          array_to_string(list_slice(list(reason ORDER BY project_id, namespace_id) FILTER (is_inexact), 1, 5), ' '),
          CASE WHEN count(*) FILTER (is_inexact) > 5 THEN concat(' And ', count(*) FILTER (is_inexact) - 5, ' more.') ELSE '' END,
          ' Ask for a later moment, for one project that is exact then (project := ''name''), or, for the pages that are known, with ',
          'inexact := true. FROM project_state has all of it.'
        )) AS VARCHAR)
    END AS complaint
  FROM (
    SELECT
      project_id,
      namespace_id,
      NOT coalesce(CAST(moment AS TIMESTAMPTZ) >= exact_from_at, false) AS is_inexact,
      concat(
        project_id, ' namespace ', namespace_id,
        coalesce(' is exact from ' || CAST(exact_from_at AS VARCHAR) || ' on.', ' has {no_snapshot}.')
      ) AS reason
    FROM (
      SELECT project_id, namespace_id FROM hours WHERE table_name = 'article_changes'
      UNION
      SELECT project_id, namespace_id FROM snapshots WHERE table_name = 'snapshot_articles'
    ) AS pairs
    LEFT JOIN (
      SELECT project_id, namespace_id, min(whole_from) AS exact_from_at
      FROM (
{exact_bases})
      GROUP BY ALL
    ) AS exact USING (project_id, namespace_id)
    WHERE project IS NULL OR project_id = project
  )
