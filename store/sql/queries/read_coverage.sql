-- Coverage of a plan by results: each run should have at most one current result, and it is final or work remains.
SELECT count(*) AS planned, ifnull(sum(final), 0) AS final, ifnull(sum(open), 0) AS unfinished,
  ifnull(sum(current > 1), 0) AS doubled
FROM (
  SELECT
    (SELECT count(*) FROM result r WHERE r.run_id = run.id
       AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id)) AS current,
    (SELECT count(*) FROM result r WHERE r.run_id = run.id AND r.again = 0
       AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id)) AS final,
    NOT EXISTS (SELECT 1 FROM result r WHERE r.run_id = run.id AND r.again = 0
       AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id)) AS open
  FROM run WHERE run.sweep_id = :sweep
)
