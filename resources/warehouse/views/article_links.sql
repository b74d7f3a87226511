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
