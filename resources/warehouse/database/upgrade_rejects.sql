-- Rejected lines that are too long for a row lie in a file of their own.
ALTER TABLE rejects ADD COLUMN IF NOT EXISTS raw_bytes BIGINT;
ALTER TABLE rejects ADD COLUMN IF NOT EXISTS raw_path VARCHAR;
ALTER TABLE rejects ADD COLUMN IF NOT EXISTS raw_offset BIGINT;
UPDATE rejects SET raw_bytes = octet_length(raw) WHERE raw_bytes IS NULL
