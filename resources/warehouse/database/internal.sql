-- What the build file holds beyond the declared tables.
CREATE SCHEMA IF NOT EXISTS internal;

-- Version of the tables; revision: raised by each transaction that changes what is published.
CREATE TABLE IF NOT EXISTS internal.meta (schema_version VARCHAR NOT NULL, revision BIGINT NOT NULL);
INSERT INTO internal.meta SELECT '', 0 WHERE NOT EXISTS (FROM internal.meta);
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

-- First maximum: the newest update or delete of each title, where it is not the row of a living page.
CREATE TABLE IF NOT EXISTS internal.titles ({state});

-- Second maximum: the newest update of each page, where it is not the row by which the page lives.
CREATE TABLE IF NOT EXISTS internal.pages ({state});

-- The entities that are not there because a delete is the newest thing known of them.
CREATE TABLE IF NOT EXISTS internal.ended_entities (
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL,
  entity_id VARCHAR NOT NULL,
  source_at TIMESTAMPTZ NOT NULL
);

-- Rows of lake files that `article_bodies` passes over: repeated events, and further rows of one page, revision and hour.
CREATE TABLE IF NOT EXISTS internal.shadowed (
  batch_hour TIMESTAMPTZ NOT NULL,
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL,
  file_row BIGINT NOT NULL
);

-- Rows of the files of snapshots that are passed over everywhere: further rows of one page and revision.
CREATE TABLE IF NOT EXISTS internal.shadowed_snapshots (
  snapshot_id VARCHAR NOT NULL,
  snapshot_version VARCHAR NOT NULL,
  file_name VARCHAR NOT NULL,
  file_row BIGINT NOT NULL
)
