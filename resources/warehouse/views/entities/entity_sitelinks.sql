SELECT
  entity_id,
  link.key AS project_id,
  link.value ->> 'title' AS title,
  json_extract_string(link.value, '$.badges[*]') AS badges,
  link.value ->> 'url' AS url
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(sitelinks AS MAP(VARCHAR, JSON))))) AS link
  FROM (SELECT entity_id, {object:sitelinks_json} AS sitelinks FROM {today})
)
