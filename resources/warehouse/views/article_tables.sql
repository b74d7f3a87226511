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
