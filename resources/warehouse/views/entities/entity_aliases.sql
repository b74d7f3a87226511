SELECT entity_id, language_id, CAST(position AS BIGINT) AS position, alias
FROM (
  SELECT entity_id, language_id, unnest(aliases) AS alias, generate_subscripts(aliases, 1) AS position
  FROM (
    SELECT entity_id, texts.key AS language_id, json_extract_string(texts.value, '$[*]') AS aliases
    FROM (
      SELECT entity_id, unnest(map_entries(TRY(CAST(aliases AS MAP(VARCHAR, JSON))))) AS texts
      FROM (SELECT entity_id, {object:aliases_json} AS aliases FROM {today})
    )
  )
)
