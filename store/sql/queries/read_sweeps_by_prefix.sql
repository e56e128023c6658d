-- Sweeps by a prefix of their name. A range instead of LIKE or GLOB uses the index for any prefix.
SELECT id, name, command, purpose, suite_id, mode, seed, repetitions, planned_at, runs, conditions
FROM sweep
WHERE name >= :prefix AND name < :prefix || char(1114111) AND id <= :sweep
ORDER BY name
LIMIT :limit
