-- Only the columns of the key are read. Columns that were declared after the files were written are of no key.
SELECT CAST(coalesce(sum(copies), 0) AS BIGINT) AS row_count, CAST(coalesce(sum(copies - 1), 0) AS BIGINT) AS repeated_count
FROM (SELECT count(*) AS copies FROM {rows} GROUP BY {key})
