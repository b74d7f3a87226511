-- Hours before the beginning that nobody can bring in any more are no gaps: they were written down by a fill that began
-- too early, or were asked for, failed, and expired.
DELETE FROM hours
WHERE state = 'past_retention'
  AND reason = $past_reason
  AND NOT EXISTS (
    FROM beginnings
    WHERE (beginnings.project_id, beginnings.namespace_id) = (hours.project_id, hours.namespace_id)
      AND hours.batch_hour >= first_hour
  )
