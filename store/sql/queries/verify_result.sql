-- Supersede the run's current result by that of a re-verification, if it still comes from the same attempt. The time
-- stays.
INSERT INTO result (run_id, attempt_id, supersedes, sweep_id, cell_id, outcome, reason, judged, again, composite, at, basis)
SELECT r.run_id, r.attempt_id, r.id, r.sweep_id, r.cell_id, :outcome, :reason, :judged, 0, :composite, r.at, 'verify'
FROM result r
WHERE r.run_id = :run_id AND r.attempt_id = :attempt_id
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id)
