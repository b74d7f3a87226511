  SELECT
    CASE
      WHEN {none_is_right}
        THEN CAST(error(concat(
          'No page of ', project, ' is known by the title ', {title}, ', and upper and lower case count. There is ',
          string_agg(DISTINCT spelling, ', ' ORDER BY spelling), '.'
        )) AS VARCHAR)
    END
  FROM (
    SELECT replace(name, '_', ' ') AS spelling FROM articles WHERE project_id = project
    UNION ALL
    SELECT replace({name}, '_', ' ') FROM {names} WHERE project_id = project
  )
  WHERE lower(spelling) = lower(replace({title}, '_', ' '))
