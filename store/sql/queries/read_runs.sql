-- A page of a sweep's runs in the run order, of some cells (a JSON list of ids) or of all, each with its current result
-- and the outcome behind it.
SELECT run.id AS run_id, run.position, run.repetition, run.cell_id,
  (SELECT count(*) FROM attempt x WHERE x.run_id = run.id AND x.id <= :attempt) AS attempts,
  r.attempt_id, a.number AS attempt_number, r.outcome, r.reason, r.judged, r.again, r.composite, r.basis,
  o.started_at, o.ended_at, o.wall_ms, o.waited_ms, o.turns, o.tool_calls, o.calls,
  o.input_tokens, o.output_tokens, o.cached_tokens, o.cache_write_tokens, o.reasoning_tokens,
  o.cost_nusd, o.cost_source, o.model_resolved, o.decision_status, o.detail
FROM run
LEFT JOIN result r ON r.run_id = run.id AND r.id <= :result
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
LEFT JOIN attempt a ON a.id = r.attempt_id
LEFT JOIN outcome o ON o.attempt_id = r.attempt_id
WHERE run.sweep_id = :sweep AND run.position >= :position
  AND (:cells IS NULL OR run.cell_id IN (SELECT value FROM json_each(:cells)))
ORDER BY run.position
LIMIT :limit
