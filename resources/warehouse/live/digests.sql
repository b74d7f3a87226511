INSERT INTO live_digests
SELECT file_row, event_id, {row_digest} AS digest, {event_key} AS event_key FROM suspects
