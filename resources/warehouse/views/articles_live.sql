-- The settled pages that no newer event replaces, and the events by which pages live now. An event replaces the page of its title, and an
-- update its own page under any title. It is the rule of `articles`: a page lives by the row that is the newest of its title and of its page.
-- Settled pages are looked up by short keys, because only a few of them have an event. Planning takes longer than running, so each view is named
-- once. `decided` has the settled pages that are replaced and the events that live; of all others, settled pages stay and events do not.
SELECT {columns}
FROM (
  SELECT {columns}, rowid AS place, '' AS filename FROM internal.articles
  UNION ALL
  SELECT {columns}, file_row_number, filename FROM (SELECT *, batch_hour AS source_at FROM internal.lake_live_rows)
) AS known
LEFT JOIN (
  WITH event AS MATERIALIZED (FROM internal.live_states),
  same_title AS MATERIALIZED (FROM internal.settled_states SEMI JOIN event USING (title_key)),
  same_page AS MATERIALIZED (FROM internal.settled_states SEMI JOIN event USING (article_id)),
  newest_of_title AS (
    SELECT project_id, title, max(age) AS age
    FROM (
      SELECT project_id, title, age FROM event
      UNION ALL
      SELECT project_id, title, age FROM same_title
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
      SELECT project_id, article_id, age FROM same_page
      UNION ALL
      SELECT project_id, article_id, {age} FROM internal.pages
    )
    GROUP BY project_id, article_id
  )
  SELECT DISTINCT place, '' AS filename, false AS is_living
  FROM (
    SELECT place FROM same_title JOIN event USING (project_id, title) WHERE event.age > same_title.age
    UNION ALL
    SELECT place FROM same_page JOIN event USING (project_id, article_id)
    WHERE event.is_update AND event.age > same_page.age
  )
  UNION ALL
  SELECT file_row_number, filename, true
  FROM event
  SEMI JOIN newest_of_title USING (project_id, title, age)
  SEMI JOIN newest_of_page USING (project_id, article_id, age)
  WHERE is_update
) AS decided ON known.place = decided.place AND known.filename = decided.filename
WHERE coalesce(is_living, known.filename = '')
