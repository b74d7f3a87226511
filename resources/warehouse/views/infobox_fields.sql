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
