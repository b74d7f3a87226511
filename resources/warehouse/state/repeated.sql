-- Selects a part of the rows by a digest of the key. Complete keys are compared only where a digest is repeated. The
-- casts are for speed: otherwise each digest is divided as a 128-bit number.
WITH suspects AS (
  SELECT {digest} AS digest
  FROM {table}
  WHERE {digest} % CAST($parts AS UBIGINT) = CAST($part AS UBIGINT)
  GROUP BY ALL
  HAVING count(*) > 1
)
SELECT {key}, count(*) AS copies, count(*) OVER () AS total
FROM {table}
WHERE {digest} IN (SELECT digest FROM suspects)
GROUP BY {key}
HAVING count(*) > 1
ORDER BY ALL
LIMIT $limit
