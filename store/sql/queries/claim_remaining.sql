-- The number of runs that are due (see claim_free_runs), whichever process holds them.
SELECT count(*) FROM run r
WHERE r.sweep_id = :sweep
  AND NOT EXISTS (
    SELECT 1 FROM result x
    WHERE x.run_id = r.id
      AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = x.id)
      AND NOT (x.id <= :high AND (
        x.again = 1
        OR (:errors AND x.outcome = 'error' AND x.reason <> 'replay_divergence')
        OR (:cancelled AND x.outcome = 'skipped' AND x.reason = 'cancelled'))))
