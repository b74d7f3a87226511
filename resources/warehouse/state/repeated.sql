-- A part of the rows is looked at, by a digest of the key. Keys are compared whole only where a digest is there several times. The casts are for
-- speed: else each digest is divided as a number of 128 bits.
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
