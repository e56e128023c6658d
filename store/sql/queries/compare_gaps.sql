-- The time between the starts of two variants' runs, pair by pair.
SELECT count(*) AS pairs, avg(gap) AS mean_us, max(gap) AS longest_us, ifnull(sum(gap > :bound_us), 0) AS wide
FROM (
  SELECT max(o.started_at) - min(o.started_at) AS gap
  FROM run
  CROSS JOIN cell c ON c.id = run.cell_id
  CROSS JOIN result r ON r.run_id = run.id AND r.id <= :result
    AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
  CROSS JOIN outcome o ON o.attempt_id = r.attempt_id
  WHERE run.sweep_id = :sweep AND c.variant IN (:baseline, :candidate)
    AND r.judged AND o.started_at IS NOT NULL
  GROUP BY run.pair
  HAVING count(*) = 2
)
