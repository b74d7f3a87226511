-- Pages of rejected records without a change or lookup after the time that the record may describe.
SELECT DISTINCT line.project_id, line.namespace_id, line.name
FROM (
  SELECT unnest($projects) AS project_id, unnest($namespaces) AS namespace_id, unnest($names) AS name, unnest($moments) AS told_until
) AS line
ANTI JOIN articles AS page ON line.project_id = page.project_id AND replace(line.name, '_', ' ') = replace(page.name, '_', ' ')
  AND page.event_at >= line.told_until
ANTI JOIN lookups ON line.project_id = lookups.project_id AND replace(line.name, '_', ' ') = replace(lookups.asked_name, '_', ' ')
  AND lookups.purpose <> 'watch'
  AND ((lookups.is_found AND lookups.looked_up_at >= line.told_until) OR lookups.looked_up_at > CAST($now AS TIMESTAMPTZ) - INTERVAL 10 MINUTE)
-- deleted: not found twice, and not found since that time
ANTI JOIN (
  SELECT project_id, replace(asked_name, '_', ' ') AS title, max(looked_up_at) AS looked_up_at
  FROM lookups WHERE NOT is_found AND purpose <> 'watch'
  GROUP BY ALL HAVING count(*) > 1
) AS gone ON line.project_id = gone.project_id AND replace(line.name, '_', ' ') = gone.title AND gone.looked_up_at >= line.told_until
ORDER BY ALL
