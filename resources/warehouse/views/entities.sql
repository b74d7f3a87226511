-- name: entities_today
-- Parts of the current entities. Wikibase represents an empty object as a list.
SELECT
  entity_id,
  CASE WHEN starts_with(labels_json, '{') THEN CAST(labels_json AS JSON) END AS labels,
  CASE WHEN starts_with(descriptions_json, '{') THEN CAST(descriptions_json AS JSON) END AS descriptions,
  CASE WHEN starts_with(aliases_json, '{') THEN CAST(aliases_json AS JSON) END AS aliases,
  CASE WHEN starts_with(sitelinks_json, '{') THEN CAST(sitelinks_json AS JSON) END AS sitelinks,
  statements_json
FROM entity_bodies
SEMI JOIN entities USING (project_id, entity_id, event_at, source_at)

-- name: entity_labels
SELECT entity_id, text.key AS language_id, text.value ->> '$' AS label
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(labels AS MAP(VARCHAR, JSON))))) AS text
  FROM {today}
)

-- name: entity_descriptions
SELECT entity_id, text.key AS language_id, text.value ->> '$' AS description
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(descriptions AS MAP(VARCHAR, JSON))))) AS text
  FROM {today}
)

-- name: entity_aliases
SELECT entity_id, language_id, CAST(position AS BIGINT) AS position, alias
FROM (
  SELECT entity_id, language_id, unnest(aliases) AS alias, generate_subscripts(aliases, 1) AS position
  FROM (
    SELECT entity_id, texts.key AS language_id, json_extract_string(texts.value, '$[*]') AS aliases
    FROM (
      SELECT entity_id, unnest(map_entries(TRY(CAST(aliases AS MAP(VARCHAR, JSON))))) AS texts
      FROM {today}
    )
  )
)

-- name: entity_sitelinks
SELECT
  entity_id,
  link.key AS project_id,
  link.value ->> 'title' AS title,
  json_extract_string(link.value, '$.badges[*]') AS badges,
  link.value ->> 'url' AS url
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(sitelinks AS MAP(VARCHAR, JSON))))) AS link
  FROM {today}
)

-- name: entity_statements
-- The required parts of a text are extracted in one call. `content_data` is extracted again as JSON, because it may be
-- a plain text, which cannot be parsed. Its keys may have capitals, so `data` is read from a lower-case copy; only a
-- text is read from the original. Statements in one list name their own property.
WITH grouped AS (
  SELECT entity_id, nullif(part.key, '') AS property_id, json_extract(part.value, '$[*]') AS statements
  FROM (
    SELECT entity_id, unnest(map_entries(TRY(CAST(statements AS MAP(VARCHAR, JSON))))) AS part
    FROM (
      SELECT
        entity_id,
        CASE
          WHEN starts_with(statements_json, '{') THEN CAST(statements_json AS JSON)
          WHEN starts_with(statements_json, '[') THEN CAST(concat('{"":', statements_json, '}') AS JSON)
        END AS statements
      FROM {today}
    )
  )
),
single AS (
  SELECT entity_id, property_id, unnest(statements) AS statement, generate_subscripts(statements, 1) AS position
  FROM grouped
),
taken AS (
  SELECT
    *,
    json_extract_string(
      statement, [
        '$.identifier',
        '$.rank',
        '$.property.identifier',
        '$.property.data_type',
        '$.value.type',
        '$.value.content',
        '$.value.content_data',
        '$.qualifiers',
        '$.references'
      ]
    ) AS part,
    CAST(json_extract(statement, '$.value.content_data') AS VARCHAR) AS content_data
  FROM single
),
parsed AS (
  SELECT
    *,
    json_extract_string(
      lower(content_data), ['$.time', '$.precision', '$.amount', '$.unit', '$.latitude', '$.longitude', '$.language']
    ) AS data,
    json_extract_string(content_data, ['$.text', '$.Text']) AS texts
  FROM taken
)
SELECT
  entity_id,
  coalesce(property_id, part[3]) AS property_id,
  CAST(
    CASE
      WHEN property_id IS NULL
      THEN row_number() OVER (PARTITION BY entity_id, property_id, part[3] ORDER BY position)
      ELSE position
    END AS BIGINT
  ) AS position,
  part[1] AS statement_id,
  part[2] AS rank,
  part[5] AS value_type,
  part[4] AS data_type,
  coalesce(part[6], upper(data[1]), data[3], texts[1], texts[2], data[5] || ', ' || data[6], part[7]) AS value,
  TRY_CAST(data[3] AS DOUBLE) AS number,
  upper(nullif(regexp_extract(data[4], 'q[0-9]+$'), '')) AS unit_id,
  upper(data[1]) AS time,
  CASE WHEN data[1] IS NOT NULL THEN TRY_CAST(data[2] AS BIGINT) END AS time_precision,
  TRY_CAST(
    CASE
      WHEN regexp_matches(data[1], '^\+[0-9]{4}-') THEN replace(replace(upper(data[1])[2:], '-00-', '-01-'), '-00T', '-01T')
    END AS TIMESTAMPTZ
  ) AS time_at,
  TRY_CAST(data[5] AS DOUBLE) AS latitude,
  TRY_CAST(data[6] AS DOUBLE) AS longitude,
  data[7] AS language_id,
  part[8] AS qualifiers_json,
  part[9] AS references_json,
  CAST(statement AS VARCHAR) AS statement_json
FROM parsed

-- name: best_statements
-- A statement without a rank counts as normal.
SELECT *
FROM entity_statements
WHERE coalesce(rank, 'normal') <> 'deprecated'
QUALIFY coalesce(rank = 'preferred', false) = coalesce(bool_or(rank = 'preferred') OVER (PARTITION BY entity_id, property_id), false)
