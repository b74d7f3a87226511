-- What was missing while the service kept it is lost once it does not.
UPDATE hours SET state = 'past_retention', reason = $past_reason, checked_at = $now
WHERE table_name = $table AND state IN ('missing', 'not_yet') AND batch_hour < $kept_from
