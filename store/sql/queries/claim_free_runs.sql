-- Free runs that are due, in the run order. A run is due without a current result, or with one from before this
-- invocation (:high) that is to be repeated. No LIMIT: the caller reads only as far as needed, and takes the last pair
-- group whole.
SELECT r.id, r.position, r.pair, r.cell_id, r.repetition, c.case_id, c.variant,
  (SELECT ifnull(max(a.number), 0) FROM attempt a WHERE a.run_id = r.id),
  (SELECT x.id FROM result x WHERE x.run_id = r.id AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = x.id))
FROM run r CROSS JOIN cell c ON c.id = r.cell_id
WHERE r.sweep_id = :sweep AND r.position >= :position
  AND NOT EXISTS (
    SELECT 1 FROM result x
    WHERE x.run_id = r.id
      AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = x.id)
      AND NOT (x.id <= :high AND (
        x.again = 1
        OR (:errors AND x.outcome = 'error' AND x.reason <> 'replay_divergence')
        OR (:cancelled AND x.outcome = 'skipped' AND x.reason = 'cancelled'))))
  AND NOT EXISTS (
    SELECT 1 FROM attempt a
    WHERE a.run_id = r.id
      AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = a.id)
      AND (a.worker_id = :worker
        OR EXISTS (SELECT 1 FROM lease l WHERE l.worker_id = a.worker_id AND l.expires_at > :now)))
ORDER BY r.position
