-- The processes that have claimed runs of a sweep, with their lease if they hold one.
SELECT w.id, w.host, w.pid, w.boot, w.born, w.version, w.started_at, l.expires_at,
  count(*) AS attempts, sum(o.attempt_id IS NULL) AS open
FROM run
CROSS JOIN attempt a ON a.run_id = run.id
CROSS JOIN worker w ON w.id = a.worker_id
LEFT JOIN outcome o ON o.attempt_id = a.id
LEFT JOIN lease l ON l.worker_id = w.id
WHERE run.sweep_id = :sweep AND a.id <= :attempt
GROUP BY w.id
ORDER BY w.id
