-- What the build file holds beyond the declared tables.
CREATE SCHEMA internal;

-- Version of the tables; revision: raised by each transaction that changes what is published.
CREATE TABLE internal.meta (schema_version VARCHAR NOT NULL, revision BIGINT NOT NULL);

-- The changes that can decide whether a page lives: one row per update and delete. Whatever else may decide joins here.
CREATE VIEW internal.candidates AS
SELECT
  project_id,
  replace(name, '_', ' ') AS title,
  article_id,
  event_at,
  version_id,
  change_type = 'update' AS is_update,
  event_key,
  batch_hour,
  namespace_id
FROM article_changes
WHERE change_type IN ('update', 'delete');

-- First maximum: the newest update or delete of each title.
CREATE TABLE internal.titles (
  project_id VARCHAR NOT NULL,
  title VARCHAR NOT NULL,
  article_id BIGINT NOT NULL,
  event_at TIMESTAMPTZ NOT NULL,
  version_id BIGINT NOT NULL,
  is_update BOOLEAN NOT NULL,
  event_key UBIGINT NOT NULL,
  batch_hour TIMESTAMPTZ NOT NULL,
  namespace_id BIGINT NOT NULL
);

-- Second maximum: the newest update of each page.
CREATE TABLE internal.pages (
  project_id VARCHAR NOT NULL,
  title VARCHAR NOT NULL,
  article_id BIGINT NOT NULL,
  event_at TIMESTAMPTZ NOT NULL,
  version_id BIGINT NOT NULL,
  is_update BOOLEAN NOT NULL,
  event_key UBIGINT NOT NULL,
  batch_hour TIMESTAMPTZ NOT NULL,
  namespace_id BIGINT NOT NULL
);

-- Rows of lake files that `article_bodies` passes over: repeated events, and further rows of one page, revision and hour.
CREATE TABLE internal.shadowed (
  batch_hour TIMESTAMPTZ NOT NULL,
  project_id VARCHAR NOT NULL,
  namespace_id BIGINT NOT NULL,
  file_row BIGINT NOT NULL
)
