-- What the build file holds beyond the declared tables.
-- Version of the tables, and of what analysts ask (views/analysts.py); revision: raised by each transaction that changes what is
-- published; merged_at: when DuckDB last merged small row groups. A file that has replaced a damaged one is not complete until everything that is archived was loaded again.
CREATE TABLE IF NOT EXISTS internal.meta (
  schema_version VARCHAR NOT NULL,
  revision BIGINT NOT NULL,
  prepared_version VARCHAR,
  is_complete BOOLEAN NOT NULL,
  merged_at TIMESTAMPTZ
);
INSERT INTO internal.meta SELECT '', 0, NULL, true, NULL WHERE NOT EXISTS (FROM internal.meta);
COMMENT ON TABLE internal.meta IS {keys};

-- The snapshot underneath the pages of a project and namespace: the newest one that was loaded.
CREATE OR REPLACE VIEW internal.bases AS
SELECT project_id, namespace_id, snapshot_id, snapshot_version, boundary_at, source_at, applied_at
FROM snapshots
WHERE table_name = 'snapshot_articles'
QUALIFY row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1;

-- The changes that can decide whether a page lives: one row per delete, and per update that is not older than the
-- snapshot underneath. Rows of snapshots compete with them; they are read from the lake when they are needed.
CREATE OR REPLACE VIEW internal.candidates AS
{candidates};

-- Titles that were not found twice, ten minutes apart at least: they are gone, and were so some minutes before the first of the two. Once is
-- not enough, since the service hides its own failures behind the same answer. Whatever happened later says otherwise, and so does a
-- later answer in which the title is found: then it was never gone.
CREATE OR REPLACE VIEW internal.not_found AS
SELECT
  project_id,
  title,
  -- Python and other clients read no year before 1
  greatest(before_at - INTERVAL 10 MINUTE, TIMESTAMPTZ '0001-01-01 00:00:00+00') AS event_at,
  source_at,
  namespace_id
FROM (
  SELECT
    project_id,
    replace(asked_name, '_', ' ') AS title,
    looked_up_at,
    is_found,
    lag(looked_up_at) OVER of_title AS before_at,
    lag(is_found) OVER of_title AS was_found,
    bool_or(is_found) OVER (of_title ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS is_found_later,
    source_at,
    namespace_id
  FROM lookups
  WHERE purpose <> 'watch'
  WINDOW of_title AS (PARTITION BY project_id, replace(asked_name, '_', ' ') ORDER BY looked_up_at, source_at)
)
WHERE NOT is_found AND NOT was_found AND is_found_later IS NOT TRUE AND before_at <= looked_up_at - INTERVAL 10 MINUTE;

-- The lookups that can decide: a page that was found is an update like any other, a title that is gone a delete. Both are older news than
-- a snapshot whose boundary is newer.
CREATE OR REPLACE VIEW internal.looked_up AS
SELECT states.*
FROM (
  SELECT project_id, replace(name, '_', ' ') AS title, article_id, event_at, version_id, true AS is_update, event_key, source_at, namespace_id
  FROM lookups
  WHERE is_found AND purpose <> 'watch'
    AND name IS NOT NULL AND article_id IS NOT NULL AND event_at IS NOT NULL AND version_id IS NOT NULL
  UNION ALL
  SELECT project_id, title, 0, event_at, 0, false, 0, source_at, namespace_id FROM internal.not_found
) AS states
LEFT JOIN internal.bases AS base ON states.project_id = base.project_id AND states.namespace_id = base.namespace_id
WHERE base.boundary_at IS NULL OR states.event_at >= base.boundary_at;

-- First maximum: the newest update or delete of each title, where it is not the row of a living page.
CREATE TABLE IF NOT EXISTS internal.titles ({state});

-- Second maximum: the newest update of each page, where it is not the row by which the page lives.
CREATE TABLE IF NOT EXISTS internal.pages ({state});

-- The entities that are not there because a delete is the newest thing known of them.
CREATE TABLE IF NOT EXISTS internal.ended_entities (
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL,
  entity_id VARCHAR NOT NULL,
  source_at TIMESTAMPTZ NOT NULL,
  event_at TIMESTAMPTZ,
  version_id BIGINT,
  event_id VARCHAR
);

-- Rows of lake files that do not count, and why. `repeated`: the file has the row of this key already. `same_revision`: another row of the hour
-- shows the page text of this revision. `reloaded`, `dropped`: all rows that a compacted file has of an hour, project and namespace, because the
-- hour was loaded again or the project was dropped; `file_row` is null, and the next compaction leaves them out. Otherwise `file_row` is the place
-- in the lake file that the row was converted into, also after its compaction: `batch_hour` to `namespace_id` then identify the lake file.
CREATE TABLE IF NOT EXISTS internal.hidden_rows (
  lake_path VARCHAR NOT NULL,
  file_row BIGINT,
  reason VARCHAR NOT NULL,
  batch_hour TIMESTAMPTZ,
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL
);

-- No row: `article_changes` holds all changes. Else the first hour of which it does; those of hours before it are read from compacted files,
-- except where a lake file is not compacted. No event in these is newer than `events_until`.
CREATE TABLE IF NOT EXISTS internal.hot_window (
  first_hour TIMESTAMPTZ NOT NULL,
  events_until TIMESTAMPTZ NOT NULL
);

-- The facts by which a publication is recognised, the moment of the last look at the lake's files and the files that were faulty then;
-- and digests of the statements of the views over the lake.
CREATE TABLE IF NOT EXISTS internal.publication (name VARCHAR NOT NULL, value VARCHAR NOT NULL)
