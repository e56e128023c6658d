-- Living processes with unfinished attempts at a sweep's runs: how many, the first, the newest, and the number of their
-- events, which grows with any progress.
SELECT w.host, w.pid, count(*), min(r.position), max(a.id),
  sum(ifnull((SELECT max(e.seq) FROM event e WHERE e.attempt_id = a.id), 0))
FROM run r
CROSS JOIN attempt a ON a.run_id = r.id
CROSS JOIN lease l ON l.worker_id = a.worker_id
CROSS JOIN worker w ON w.id = a.worker_id
WHERE r.sweep_id = ? AND a.worker_id <> ? AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = a.id)
GROUP BY w.id
ORDER BY w.id
