SELECT entity_id, text.key AS language_id, text.value ->> '$' AS description
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(descriptions AS MAP(VARCHAR, JSON))))) AS text
  FROM (SELECT entity_id, {object:descriptions_json} AS descriptions FROM {today})
)
