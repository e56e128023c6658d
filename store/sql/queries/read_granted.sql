-- The last row carries the running totals.
SELECT total_calls AS calls, total_tokens AS tokens, total_nusd AS nusd
FROM spend
WHERE sweep_id = :sweep
ORDER BY seq DESC
LIMIT 1
