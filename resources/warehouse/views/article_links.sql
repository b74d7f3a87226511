SELECT
  project_id,
  namespace_id,
  article_id,
  name,
  origin,
  list_append(position, CAST(n AS BIGINT)) AS position,
  concat(path, '.links[', n - 1, ']') AS path,
  link ->> 'url' AS url,
  link ->> 'text' AS text
FROM (
  SELECT project_id, namespace_id, article_id, name, origin, position, path, unnest(links) AS link, generate_subscripts(links, 1) AS n
  FROM (
    SELECT project_id, namespace_id, article_id, name, 'infobox' AS origin, position, {path} AS path, json_extract(part, '$.links[*]') AS links
    FROM {infobox_parts}
    UNION ALL
    SELECT project_id, namespace_id, article_id, name, 'section' AS origin, position, {path} AS path, json_extract(part, '$.links[*]') AS links
    FROM {section_parts}
    UNION ALL
    SELECT
      project_id,
      namespace_id,
      article_id,
      name,
      'reference' AS origin,
      [CAST(n AS BIGINT), place] AS position,
      concat('$[', n - 1, '].', if(place = 1, 'text', 'source')) AS path,
      if(place = 1, json_extract(part, '$.text.links[*]'), json_extract(part, '$.source.links[*]')) AS links
    FROM (
      SELECT project_id, namespace_id, article_id, name, unnest(parts) AS part, generate_subscripts(parts, 1) AS n
      FROM (SELECT project_id, namespace_id, article_id, name, {references} AS parts FROM structured_bodies)
    ), (VALUES (CAST(1 AS BIGINT)), (2)) AS places (place)
  )
)
