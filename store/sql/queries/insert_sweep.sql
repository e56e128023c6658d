INSERT INTO sweep (name, command, purpose, suite_id, mode, seed, repetitions, planned_at, runs, conditions)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
