-- Inserts nothing if another result has already superseded the one that the attempt was claimed to supersede.
INSERT INTO result (run_id, attempt_id, supersedes, sweep_id, cell_id, outcome, reason, judged, again, composite, at, basis)
SELECT :run_id, :attempt_id, :supersedes, :sweep_id, :cell_id, :outcome, :reason, :judged, :again, :composite, :at, :basis
WHERE NOT EXISTS (
  SELECT 1 FROM result r WHERE r.run_id = :run_id AND ifnull(r.supersedes, 0) = ifnull(:supersedes, 0))
