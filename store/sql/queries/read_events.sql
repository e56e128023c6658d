-- A page of an attempt's events.
SELECT seq, at, kind, payload, blob_id
FROM event
WHERE attempt_id = :attempt AND seq > :seq
ORDER BY seq
LIMIT :limit
