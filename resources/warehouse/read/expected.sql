-- What the ledger says of lake files: their bytes and rows. The bytes of a compacted file with its bodies apart are those of both.
SELECT lake_path, lake_bytes, row_count
FROM (SELECT DISTINCT unnest(CAST($paths AS VARCHAR[])) AS lake_path)
JOIN ({named}) USING (lake_path)
