-- name: infobox_fields
SELECT
  {page},
  position,
  {path} AS path,
  part ->> 'type' AS part_type,
  position[1] AS infobox_number,
  above[1] AS infobox_name,
  list_filter(above[2:], lambda heading: heading IS NOT NULL)[-1] AS heading,
  part ->> 'name' AS label,
  part ->> 'value' AS value,
  from_json(part -> 'values', '["VARCHAR"]') AS values,
  CAST(coalesce(json_array_length(part, '$.links'), 0) AS BIGINT) AS link_count,
  CAST(coalesce(json_array_length(part, '$.citations'), 0) AS BIGINT) AS citation_count
FROM {infobox_parts}
WHERE part ->> 'type' NOT IN ('infobox', 'section')

-- name: infobox_values
CREATE MACRO main.infobox_values(wanted) AS TABLE
WITH {captured}
SELECT project_id, article_id, name, infobox_name, heading, label, value, position
FROM infobox_fields
WHERE lower(label) = lower(wanted) AND (SELECT complaint IS NULL FROM captured)

-- name: sections
-- Content of a section itself: its parts that are not sections. Only a part has a `value`, at any depth.
SELECT
  {page},
  position,
  {path} AS path,
  CAST(len(position) AS BIGINT) AS level,
  heading,
  list_append(above, heading) AS headings,
  nullif(
    array_to_string(flatten(list_transform(own_parts, lambda part: json_extract_string(part, '$..value'))), chr(10)), ''
  ) AS text,
  CAST(
    coalesce(list_sum(list_transform(own_parts, lambda part: len(json_extract(part, '$..links[*]')))), 0) AS BIGINT
  ) AS link_count,
  CAST(
    coalesce(list_sum(list_transform(own_parts, lambda part: len(json_extract(part, '$..citations[*]')))), 0) AS BIGINT
  ) AS citation_count,
  flatten(
    list_transform(own_parts, lambda part: json_extract_string(part, '$..table_references[*].identifier'))
  ) AS table_ids
FROM (
  SELECT
    {page},
    position,
    above,
    part ->> 'name' AS heading,
    list_filter(json_extract(part, '$.has_parts[*]'), lambda part: coalesce(part ->> 'type', '') <> 'section') AS own_parts
  FROM {section_parts}
  WHERE part ->> 'type' = 'section'
)

-- name: article_tables
SELECT
  {page},
  [CAST(n AS BIGINT)] AS position,
  concat('$[', n - 1, ']') AS path,
  part ->> 'identifier' AS table_id,
  TRY_CAST(part ->> 'confidence_score' AS DOUBLE) AS confidence_score,
  CAST(len(header_cells) AS BIGINT) AS header_count,
  CAST(len(cells) AS BIGINT) AS row_count,
  CAST(
    coalesce(list_max(list_transform(list_concat(header_cells, cells, footer_cells), lambda line: len(line))), 0) AS BIGINT
  ) AS column_count,
  list_transform(header_cells, lambda line: list_transform(line, lambda cell: cell.value)) AS headers,
  list_transform(cells, lambda line: list_transform(line, lambda cell: cell.value)) AS rows,
  list_transform(footer_cells, lambda line: list_transform(line, lambda cell: cell.value)) AS footers
FROM (
  SELECT
    *,
    coalesce(from_json(part -> 'headers', '[[{"value":"VARCHAR"}]]'), []) AS header_cells,
    coalesce(from_json(part -> 'rows', '[[{"value":"VARCHAR"}]]'), []) AS cells,
    coalesce(from_json(part -> 'footers', '[[{"value":"VARCHAR"}]]'), []) AS footer_cells
  FROM {tables}
)

-- name: article_references
SELECT
  {page},
  [CAST(n AS BIGINT)] AS position,
  concat('$[', n - 1, ']') AS path,
  part ->> 'identifier' AS reference_id,
  part ->> 'group' AS reference_group,
  part ->> 'type' AS reference_type,
  part ->> '$.metadata.title' AS title,
  coalesce(part ->> '$.metadata.url', part ->> '$.text.links[0].url') AS url,
  part ->> '$.text.value' AS text,
  part ->> '$.source.value' AS source,
  CAST(part -> 'metadata' AS VARCHAR) AS metadata_json
FROM {references}

-- name: article_links
SELECT
  {page},
  origin,
  list_append(position, CAST(n AS BIGINT)) AS position,
  concat(path, '.links[', n - 1, ']') AS path,
  link ->> 'url' AS url,
  link ->> 'text' AS text
FROM (
  SELECT {page}, origin, position, path, unnest(links) AS link, generate_subscripts(links, 1) AS n
  FROM (
    SELECT {page}, 'infobox' AS origin, position, {path} AS path, json_extract(part, '$.links[*]') AS links
    FROM {infobox_parts}
    UNION ALL
    SELECT {page}, 'section' AS origin, position, {path} AS path, json_extract(part, '$.links[*]') AS links
    FROM {section_parts}
    UNION ALL
    SELECT
      {page},
      'reference' AS origin,
      [CAST(n AS BIGINT), place] AS position,
      concat('$[', n - 1, '].', CASE WHEN place = 1 THEN 'text' ELSE 'source' END) AS path,
      CASE WHEN place = 1 THEN json_extract(part, '$.text.links[*]') ELSE json_extract(part, '$.source.links[*]') END AS links
    FROM {references}, (VALUES (CAST(1 AS BIGINT)), (2)) AS places (place)
  )
)

-- name: citations_per_page
SELECT
  {page},
  CAST(coalesce(json_array_length(references_json), 0) AS BIGINT) AS reference_count,
  CAST(len(cited) AS BIGINT) AS citation_count,
  CAST(len(list_distinct(cited)) AS BIGINT) AS cited_reference_count
FROM (
  SELECT
    *,
    list_concat(
      json_extract_string(coalesce(infoboxes_json, infobox_json), '$..citations[*].identifier'),
      json_extract_string(coalesce(sections_json, article_sections_json), '$..citations[*].identifier')
    ) AS cited
  FROM {bodies}
)
