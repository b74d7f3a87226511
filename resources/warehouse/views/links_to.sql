-- A link names a title, which may be a redirect of the page. The address of the linking page shows which host is its own project's.
CREATE MACRO main.links_to(project, title) AS TABLE
WITH asked AS (
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
            'No structured contents of ', project, ' are here, and links are known from them alone. ',
            '`wme run --snapshots --dataset structured_articles` fetches those of mirrored projects, if the service has them. ',
            'SELECT DISTINCT project_id FROM structured_articles lists those that are here.'
          )) AS VARCHAR)
      END AS complaint
    FROM structured_articles AS page
    WHERE page.project_id = project
  )
  WHERE complaint IS NOT NULL
)
ORDER BY name, article_id, list_position(['infobox', 'section', 'reference'], origin), position
