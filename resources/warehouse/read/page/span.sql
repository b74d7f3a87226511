-- From when on hours are here, and from when until when files were loaded.
SELECT
  (SELECT min(batch_hour) FROM hours WHERE table_name = 'article_changes' AND state IN ('loaded', 'empty')),
  (SELECT max(batch_hour) FROM hours WHERE table_name = 'article_changes' AND state IN ('loaded', 'empty')),
  (SELECT min(loaded_at) FROM loads),
  (SELECT max(loaded_at) FROM loads)
