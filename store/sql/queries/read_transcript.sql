-- The events of the attempt behind a run's current result.
SELECT e.seq, e.at, e.kind, e.payload, e.blob_id
FROM current c CROSS JOIN event e ON e.attempt_id = c.attempt_id
WHERE c.run_id = :run
ORDER BY e.seq
