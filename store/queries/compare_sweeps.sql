-- Two sweeps, cell by cell.
SELECT c.cell_id, c.sweep_id, sum(c.outcome = 'pass') AS passes, sum(c.judged) AS judged,
  sum(c.outcome = 'error') AS errored
FROM current c
WHERE c.sweep_id IN (:baseline, :candidate)
GROUP BY c.sweep_id, c.cell_id
