-- Hours before the beginning that nobody can bring in any more are no gaps: they were written down by a fill that began
-- too early, or were asked for by mistake, or failed and expired.
DELETE FROM hours
WHERE table_name = $table
  AND state = 'past_retention'
  AND NOT EXISTS (
    FROM beginnings
    WHERE (beginnings.table_name, beginnings.project_id, beginnings.namespace_id)
      = (hours.table_name, hours.project_id, hours.namespace_id)
      AND hours.batch_hour >= first_hour
  )
