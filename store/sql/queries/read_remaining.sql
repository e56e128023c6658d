-- The number of runs that a resume repeats.
SELECT count(*) AS count
FROM run
WHERE run.sweep_id = :sweep AND NOT EXISTS (
  SELECT 1 FROM result r
  WHERE r.run_id = run.id AND r.again = 0 AND r.id <= :result
    AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result))
