-- A statement without a rank is a normal one.
SELECT *
FROM entity_statements
WHERE coalesce(rank, 'normal') <> 'deprecated'
QUALIFY coalesce(rank = 'preferred', false) = coalesce(bool_or(rank = 'preferred') OVER (PARTITION BY entity_id, property_id), false)
