-- The last order to pause, continue or cancel a sweep.
SELECT id, verb, who, why, payload, at
FROM control
WHERE sweep_id = ? AND verb IN ('pause', 'continue', 'cancel')
ORDER BY id DESC
LIMIT 1
