-- Sweeps below an id, newest first.
SELECT id, name, command, purpose, suite_id, mode, seed, repetitions, planned_at, runs, conditions
FROM sweep
WHERE id <= :sweep
ORDER BY id DESC
LIMIT :limit
