-- Attempts of a sweep without an outcome, held by other processes.
SELECT s.name, r.position, a.number, w.id, w.host, w.pid, w.boot, w.born, w.version, w.started_at
FROM sweep s CROSS JOIN run r ON r.sweep_id = s.id CROSS JOIN attempt a ON a.run_id = r.id
  CROSS JOIN worker w ON w.id = a.worker_id
WHERE s.id = ? AND a.worker_id <> ? AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = a.id)
ORDER BY r.position, a.number
