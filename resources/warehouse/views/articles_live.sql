-- The settled pages that no newer event replaces, and the events by which pages live now. An event replaces the page of its title, and an
-- update its own page under any title. It is the rule of `articles`: a page lives by the row that is the newest of its title and of its page.
-- Pages are looked up by short keys first (`same_key`), because only a few of them have an event.
SELECT {columns}
FROM internal.articles
ANTI JOIN (
  WITH event AS MATERIALIZED (FROM internal.live_states),
  same_key AS MATERIALIZED (
    FROM internal.settled_states SEMI JOIN event USING (title_key)
    UNION ALL
    FROM internal.settled_states SEMI JOIN event USING (article_id)
  )
  SELECT place
  FROM same_key
  JOIN event ON same_key.project_id = event.project_id AND same_key.title = event.title
  WHERE event.age > same_key.age
  UNION ALL
  SELECT place
  FROM same_key
  JOIN event ON same_key.project_id = event.project_id AND same_key.article_id = event.article_id
  WHERE event.is_update AND event.age > same_key.age
) AS replaced ON articles.rowid = replaced.place
UNION ALL
SELECT {columns}
FROM (SELECT *, batch_hour AS source_at FROM internal.lake_live_rows)
SEMI JOIN (
  WITH event AS MATERIALIZED (FROM internal.live_states),
  newest_of_title AS (
    SELECT project_id, title, max(age) AS age
    FROM (
      SELECT project_id, title, age FROM event
      UNION ALL
      SELECT project_id, title, age FROM internal.settled_states SEMI JOIN event USING (title_key)
      UNION ALL
      SELECT project_id, title, {age} FROM internal.titles
    )
    GROUP BY project_id, title
  ),
  newest_of_page AS (
    SELECT project_id, article_id, max(age) AS age
    FROM (
      SELECT project_id, article_id, age FROM event WHERE is_update
      UNION ALL
      SELECT project_id, article_id, age FROM internal.settled_states SEMI JOIN event USING (article_id)
      UNION ALL
      SELECT project_id, article_id, {age} FROM internal.pages
    )
    GROUP BY project_id, article_id
  )
  SELECT filename, file_row_number
  FROM event
  SEMI JOIN newest_of_title USING (project_id, title, age)
  SEMI JOIN newest_of_page USING (project_id, article_id, age)
  WHERE is_update
) AS living USING (filename, file_row_number)
