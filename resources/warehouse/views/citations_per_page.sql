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
