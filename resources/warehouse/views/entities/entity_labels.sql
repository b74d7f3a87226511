SELECT entity_id, text.key AS language_id, text.value ->> '$' AS label
FROM (
  SELECT entity_id, unnest(map_entries(TRY(CAST(labels AS MAP(VARCHAR, JSON))))) AS text
  FROM (SELECT entity_id, {object:labels_json} AS labels FROM {today})
)
