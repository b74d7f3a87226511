  -- An error, rather than an answer without rows, for a project of which nothing is known. A null asks for all of them.
  SELECT
    CASE
      WHEN project IS NOT NULL AND NOT coalesce(bool_or(known.project_id = project), false)
        THEN CAST(error(concat(
          'The project ', project, ' is not mirrored here. ',
          'The nearest name is ' || arg_max(known.project_id, jaro_winkler_similarity(known.project_id, project)) || '. ',
          'SELECT DISTINCT project_id FROM hours lists those that are.'
        )) AS VARCHAR)
    END AS complaint
  FROM (
    SELECT project_id FROM hours WHERE table_name = 'article_changes'
    UNION
    SELECT project_id FROM snapshots WHERE table_name = 'snapshot_articles'
  ) AS known
