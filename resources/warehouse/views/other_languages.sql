-- A page that is mirrored has an id; of the others the item knows the title. Projects of another kind, such as Wikiquote, are left out.
CREATE MACRO main.other_languages(project, title) AS TABLE
WITH page AS (
  SELECT DISTINCT main_entity_id AS entity_id FROM find_article(project, title)
),
mirrored AS (
  SELECT entity_id, other.project_id, other.article_id, other.name, other.url
  FROM page
  JOIN articles AS other ON other.main_entity_id = page.entity_id
  WHERE other.project_id <> project
),
linked AS (
  SELECT page.entity_id, link.project_id, link.title AS name, link.url
  FROM page
  JOIN entity_sitelinks AS link ON link.entity_id = page.entity_id
  WHERE link.project_id <> project
    AND NOT EXISTS (FROM mirrored WHERE mirrored.project_id = link.project_id AND mirrored.entity_id = page.entity_id)
)
SELECT wiki.language_id, other.project_id, other.name, other.article_id, other.entity_id, other.url
FROM (FROM mirrored UNION ALL BY NAME FROM linked) AS other
LEFT JOIN projects AS wiki ON wiki.project_id = other.project_id
WHERE wiki.code IS NOT DISTINCT FROM (SELECT max(own.code) FROM projects AS own WHERE own.project_id = project)
ORDER BY language_id, other.project_id, other.article_id
