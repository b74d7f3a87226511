        THEN CAST(error(concat(
          'No page of ', project, ' is known by the title ', {title}, ', and upper and lower case count. There is ',
          string_agg(DISTINCT spelling, ', ' ORDER BY spelling), '.'
        )) AS VARCHAR)
