SELECT reason, count(*) AS line_count, count(DISTINCT project_id) AS project_count, max(batch_hour) AS newest_hour
FROM rejects
GROUP BY reason
ORDER BY line_count DESC, reason
LIMIT $1
