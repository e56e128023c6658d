-- Unfinished attempts of processes that hold a lease, each with its last telling event.
SELECT a.id AS attempt_id, run.position, a.number, a.worker_id, a.claimed_at, e.at, e.kind, e.payload
FROM run
CROSS JOIN attempt a ON a.run_id = run.id
CROSS JOIN lease l ON l.worker_id = a.worker_id
LEFT JOIN event e ON e.attempt_id = a.id AND e.seq = (
  SELECT x.seq FROM event x
  WHERE x.attempt_id = a.id AND x.kind NOT IN ('text', 'reasoning', 'waited', 'incident')
  ORDER BY x.seq DESC LIMIT 1)
WHERE run.sweep_id = :sweep AND a.id <= :attempt AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = a.id)
ORDER BY run.position
