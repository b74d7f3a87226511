-- Rejected lines that are too long for a row lie in a file of their own.
ALTER TABLE rejects ADD COLUMN raw_bytes BIGINT;
ALTER TABLE rejects ADD COLUMN raw_path VARCHAR;
ALTER TABLE rejects ADD COLUMN raw_offset BIGINT;
UPDATE rejects SET raw_bytes = octet_length(raw)
