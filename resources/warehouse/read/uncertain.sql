-- Pages that a lost hour left uncertain, the most recently changed first: they are the most likely to have changed in
-- it. A title that was not found is requested again after ten minutes at the earliest.
SELECT page.project_id, page.namespace_id, page.name
FROM articles AS page
JOIN (
  SELECT hours.project_id, hours.namespace_id, max(batch_hour) + INTERVAL 1 HOUR AS lost_until
  FROM hours
  JOIN ({beginnings}) AS beginnings USING (table_name, project_id, namespace_id)
  LEFT JOIN internal.bases AS base ON hours.project_id = base.project_id AND hours.namespace_id = base.namespace_id
  WHERE table_name = 'article_changes' AND state = 'past_retention'
    AND batch_hour >= coalesce(time_bucket(INTERVAL 1 HOUR, boundary_at), first_hour)
  GROUP BY ALL
) AS lost ON page.project_id = lost.project_id AND page.namespace_id = lost.namespace_id AND page.event_at < lost_until
ANTI JOIN lookups ON page.project_id = lookups.project_id AND replace(page.name, '_', ' ') = replace(lookups.asked_name, '_', ' ')
  AND lookups.purpose <> 'watch'
  AND ((lookups.is_found AND lookups.looked_up_at >= lost_until) OR lookups.looked_up_at > CAST($now AS TIMESTAMPTZ) - INTERVAL 10 MINUTE)
WHERE list_contains($projects, page.project_id) AND list_contains($namespaces, page.namespace_id)
ORDER BY page.event_at DESC, page.project_id, page.name
LIMIT $limit
