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
