-- Titles and pages that something new is known of. Long tables are searched by short keys first, and rows are compared
-- whole only among the few that were found: `title_key` may be shared by two titles, a page id by two projects.
CREATE OR REPLACE TEMP TABLE moved_titles AS
SELECT project_id, title, {title_key} AS title_key
FROM (SELECT project_id, title FROM fresh UNION SELECT project_id, title FROM redone_titles);

CREATE OR REPLACE TEMP TABLE moved_pages AS
SELECT project_id, article_id FROM fresh WHERE is_update UNION SELECT project_id, article_id FROM redone_pages
