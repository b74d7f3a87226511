-- What is in a section itself: its parts that are no sections. Nothing but a part has a `value`, at any depth.
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
