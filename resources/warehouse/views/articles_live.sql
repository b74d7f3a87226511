-- The settled pages that no newer event replaces, and the events that decide pages now. An event replaces the page with
-- its title, and an update replaces its own page under any title. This is the rule of `articles`: the deciding row of a
-- page is the newest one of its title and of its page. Settled pages are found by short keys, because only a few of
-- them have an event. Planning takes longer than execution, so each view is named once. `decided` has the settled pages
-- that are replaced, and the events that decide. Of all others, settled pages are shown and events are not.
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
-- name: live_files
-- A merged file counts one minute after its creation, because a query lists the files several times and must not find
-- it in only some of the lists. The original files stay for an hour. A slow clock may have put events into the folder
-- of the previous hour.
SELECT filename
FROM (
  SELECT *, lead(first_step) OVER of_steps >= first_step AND last_modified > now() - INTERVAL 1 MINUTE AS is_new
  FROM (
    SELECT
      filename,
      last_modified,
      regexp_extract(filename, '(\d{12})(-\d{12})?[.]parquet$', 1) AS first_step,
      regexp_extract(filename, '(\d{12})[.]parquet$', 1) AS last_step
    FROM read_blob({files})
    WHERE filename >= (
      SELECT concat(
        {folder}, strftime(make_timestamp(epoch_us(first_hour)) - INTERVAL 1 HOUR, '/date=%Y-%m-%d/hour=%H')
      )
      FROM internal.live_window
    )
  )
  WHERE first_step <> ''
  WINDOW of_steps AS (ORDER BY last_step DESC, first_step)
)
WHERE is_new IS NOT TRUE
QUALIFY coalesce(
  first_step < min(first_step) OVER (
    ORDER BY last_step DESC, first_step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ),
  true
)
