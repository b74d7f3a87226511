-- Internal tables of the build file, in addition to the declared ones.
-- schema_version: version of the tables. prepared_version: version of the views and macros for analysts
-- (views/analysts.py). revision: incremented by each transaction that changes published data. is_complete: false after
-- a damaged file was replaced, until all data is loaded again. merged_revision: the revision at the last merge of small
-- row groups.
CREATE TABLE IF NOT EXISTS internal.meta (
  schema_version VARCHAR NOT NULL,
  revision BIGINT NOT NULL,
  prepared_version VARCHAR,
  is_complete BOOLEAN NOT NULL,
  merged_revision BIGINT NOT NULL
);
INSERT INTO internal.meta SELECT '', 0, NULL, true, 0 WHERE NOT EXISTS (FROM internal.meta);
COMMENT ON TABLE internal.meta IS {keys};

-- The base snapshot of each project and namespace: its newest loaded version.
CREATE OR REPLACE VIEW internal.bases AS
SELECT project_id, namespace_id, snapshot_id, snapshot_version, boundary_at, source_at, applied_at
FROM main.snapshots
WHERE table_name = 'snapshot_articles'
QUALIFY row_number() OVER (PARTITION BY project_id, namespace_id ORDER BY {newest_snapshot_first}) = 1;

-- Changes that can decide whether a page exists: one row per delete, and one per update that is not older than the base
-- snapshot. Rows of snapshots compete with them; they are read from the lake when they are needed.
CREATE OR REPLACE VIEW internal.candidates AS
{candidates};

-- Titles that were not found twice, at least ten minutes apart. They count as deleted some minutes before the first of
-- the two lookups. One lookup is not enough, since the service hides its own failures behind the same response. A later
-- change of the title overrides this. If a later lookup finds the title, it was never deleted.
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

-- Lookups that can decide: a found page counts as an update, a deleted title as a delete. A lookup older than the
-- boundary of the base snapshot does not count.
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

-- First maximum: the newest update or delete of each title, unless it is a row of `articles`.
CREATE TABLE IF NOT EXISTS internal.titles ({state});

-- Second maximum: the newest update of each page, unless it is a row of `articles`.
CREATE TABLE IF NOT EXISTS internal.pages ({state});

-- Entities that do not exist now, because their newest known event is a delete.
CREATE TABLE IF NOT EXISTS internal.ended_entities (
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL,
  entity_id VARCHAR NOT NULL,
  source_at TIMESTAMPTZ NOT NULL,
  event_at TIMESTAMPTZ,
  version_id BIGINT,
  event_id VARCHAR
);

-- Rows of lake files that do not count, with the reason. `repeated`: the file already has a row with this key.
-- `same_revision`: another row of the hour shows the page text of this revision. `reloaded`, `dropped`: the hour was
-- loaded again, or the project was dropped. These two mask all rows of an hour, project and namespace in a compacted
-- file, with a null `file_row`; the next compaction omits the rows. Otherwise `file_row` is the position in the lake
-- file to which the row was converted, even after its compaction; `batch_hour`, `project_id` and `namespace_id`
-- identify that file.
CREATE TABLE IF NOT EXISTS internal.hidden_rows (
  lake_path VARCHAR NOT NULL,
  file_row BIGINT,
  reason VARCHAR NOT NULL,
  batch_hour TIMESTAMPTZ,
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL
);

-- The first hour whose changes are in `article_changes`; without a row, all changes are. Changes of earlier hours are
-- read from compacted files, except where a lake file is not compacted. Their events are not newer than `events_until`.
CREATE TABLE IF NOT EXISTS internal.hot_window (
  first_hour TIMESTAMPTZ NOT NULL,
  events_until TIMESTAMPTZ NOT NULL
);

-- Facts that identify a publication, the time of the last check of the lake's files and the files that were faulty
-- then, and digests of the statements of the views over the lake.
CREATE TABLE IF NOT EXISTS internal.publication (name VARCHAR NOT NULL, value VARCHAR NOT NULL)
