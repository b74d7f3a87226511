-- name: newest_articles
CREATE VIEW main.newest_articles AS
SELECT project_id, namespace_id, article_id, name, created_at, event_at, editor_name, size_bytes, abstract, url
FROM articles
WHERE created_at IS NOT NULL
ORDER BY created_at DESC, project_id, article_id

-- name: breaking_news
CREATE VIEW main.breaking_news AS
SELECT project_id, namespace_id, article_id, name, event_at, abstract, url
FROM articles
WHERE is_breaking_news
ORDER BY event_at DESC, project_id, article_id

-- name: titles
-- A page's own title wins over a redirect of that name; if two pages claim a redirect, both are returned.
CREATE VIEW main.titles AS
SELECT project_id, replace(name, '_', ' ') AS title, article_id, name, false AS is_redirect
FROM articles
UNION ALL
SELECT DISTINCT redirects.project_id, replace(redirect_name, '_', ' ') AS title, redirects.article_id, redirects.name, true AS is_redirect
FROM redirects
ANTI JOIN articles AS page
  ON page.project_id = redirects.project_id AND replace(page.name, '_', ' ') = replace(redirects.redirect_name, '_', ' ')

-- name: redirects
CREATE OR REPLACE VIEW main.redirects AS
SELECT project_id, redirect.name AS redirect_name, redirect.url AS redirect_url, article_id, name
FROM (SELECT project_id, article_id, name, unnest(redirects) AS redirect FROM articles)
WHERE redirect.name IS NOT NULL

-- name: other_spelling
SELECT
    CASE
      WHEN {none_is_right}
        THEN CAST(error(concat(
          'No page of ', project, ' is known by the title ', {title}, '. Titles are case-sensitive. There is ',
          string_agg(DISTINCT spelling, ', ' ORDER BY spelling), '.'
        )) AS VARCHAR)
    END
  FROM (
    SELECT replace(name, '_', ' ') AS spelling FROM articles WHERE project_id = project
    UNION ALL
    SELECT replace({name}, '_', ' ') FROM {names} WHERE project_id = project
  )
  WHERE lower(spelling) = lower(replace({title}, '_', ' '))

-- name: find_article
-- Titles are case-sensitive: if only another spelling of the title exists, the query fails and names it.
CREATE MACRO main.find_article(project, title) AS TABLE
WITH {captured}
SELECT {columns}
FROM articles
WHERE project_id = project
  AND (
    replace(name, '_', ' ') = replace(title, '_', ' ')
    OR (
      list_contains(list_transform(redirects, lambda entry: replace(entry.name, '_', ' ')), replace(title, '_', ' '))
      AND NOT EXISTS (
        FROM articles AS page WHERE page.project_id = project AND replace(page.name, '_', ' ') = replace(title, '_', ' ')
      )
    )
  )
UNION ALL BY NAME
SELECT {complaints}
FROM (
  FROM captured
  UNION ALL
{unmirrored}  UNION ALL
{other_spelling})
WHERE complaint IS NOT NULL

-- name: article_text
-- The page is found among the narrow rows first; then only one lake file can contain its text.
CREATE MACRO main.article_text(project, title) AS TABLE
SELECT page.project_id, page.article_id, page.name, page.version_id, page.event_at, body.wikitext, body.html
FROM find_article(project, title) AS page
LEFT JOIN article_bodies AS body USING (project_id, article_id, version_id, source_at)

-- name: article_categories
CREATE VIEW main.article_categories AS
SELECT project_id, namespace_id, article_id, name, entry.name AS category_name, entry.url AS category_url
FROM (SELECT project_id, namespace_id, article_id, name, unnest(categories) AS entry FROM articles)
WHERE entry.name IS NOT NULL

-- name: article_templates
CREATE VIEW main.article_templates AS
SELECT project_id, namespace_id, article_id, name, entry.name AS template_name, entry.url AS template_url
FROM (SELECT project_id, namespace_id, article_id, name, unnest(templates) AS entry FROM articles)
WHERE entry.name IS NOT NULL

-- name: other_languages
-- A mirrored page has an id; for others, the item knows only the title. Projects of another kind, such as Wikiquote,
-- are excluded.
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

-- name: links_to
-- A link names a title, which may be a redirect of the page. The address of the linking page shows the host of its
-- project.
CREATE MACRO main.links_to(project, title) AS TABLE
WITH {captured},
asked AS (
  SELECT DISTINCT known.article_id AS page_id
  FROM titles AS known
  WHERE known.project_id = project AND known.title = replace(title, '_', ' ')
),
wanted AS (
  SELECT DISTINCT one.title AS linked_title, one.is_redirect
  FROM titles AS one
  JOIN asked ON one.article_id = asked.page_id
  WHERE one.project_id = project
  UNION
  SELECT replace(title, '_', ' '), false WHERE NOT EXISTS (FROM asked)
),
hosts AS (
  SELECT DISTINCT page.article_id AS page_id, regexp_extract(page.url, '^https?://([^/]+)/', 1) AS own_host
  FROM structured_articles AS page
  WHERE page.project_id = project
),
links AS (
  SELECT
    link.*,
    regexp_extract(link.url, '^(?:(?:https?:)?//([^/?#]+))?/wiki/([^?#]+)', ['host', 'title']) AS place
  FROM article_links AS link
  WHERE link.project_id = project AND contains(link.url, '/wiki/')
)
SELECT *
FROM (
  SELECT
    link.project_id,
    link.namespace_id,
    link.article_id,
    link.name,
    wanted.linked_title,
    wanted.is_redirect,
    link.origin,
    link.position,
    link.url,
    link.text
  FROM links AS link
  JOIN hosts ON hosts.page_id = link.article_id AND link.place.title <> '' AND link.place.host IN ('', hosts.own_host)
  JOIN wanted ON wanted.linked_title = replace(TRY(url_decode(link.place.title)), '_', ' ')
  UNION ALL BY NAME
  SELECT
    CAST(complaint AS VARCHAR) AS project_id,
    CAST(complaint AS BIGINT) AS namespace_id,
    CAST(complaint AS BIGINT) AS article_id,
    CAST(complaint AS VARCHAR) AS name,
    CAST(complaint AS VARCHAR) AS linked_title,
    CAST(complaint AS BOOLEAN) AS is_redirect,
    CAST(complaint AS VARCHAR) AS origin,
    CAST(complaint AS BIGINT[]) AS position,
    CAST(complaint AS VARCHAR) AS url,
    CAST(complaint AS VARCHAR) AS text
  FROM (
    SELECT
      CASE
        WHEN project IS NOT NULL AND count(*) = 0
          THEN CAST(error(concat(
            'No structured contents of ', project, ' are loaded, and links are known only from them. ',
            '`wme run --snapshots --dataset structured_articles` fetches those of mirrored projects, if the service has them. ',
            'SELECT DISTINCT project_id FROM structured_articles lists the loaded projects.'
          )) AS VARCHAR)
      END AS complaint
    FROM structured_articles AS page
    WHERE page.project_id = project
    UNION ALL
    FROM captured
  )
  WHERE complaint IS NOT NULL
)
ORDER BY name, article_id, list_position(['infobox', 'section', 'reference'], origin), position

-- name: page_links
CREATE MACRO main.page_links(project, title) AS TABLE
WITH {captured}
SELECT origin, position, url, text
FROM article_links
WHERE project_id = project AND name = replace(title, '_', ' ') AND (SELECT complaint IS NULL FROM captured)
ORDER BY list_position(['infobox', 'section', 'reference'], origin), position

-- name: page_sections
CREATE MACRO main.page_sections(project, title) AS TABLE
WITH {captured}
SELECT position, level, heading, text, link_count, citation_count
FROM sections
WHERE project_id = project AND name = replace(title, '_', ' ') AND (SELECT complaint IS NULL FROM captured)
ORDER BY position
