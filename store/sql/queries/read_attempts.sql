-- Every attempt at a run with its outcome, if any, and whether the run's current result comes from it.
SELECT a.id AS attempt_id, a.number, a.worker_id, a.claimed_at,
  EXISTS (
    SELECT 1 FROM result r
    WHERE r.run_id = a.run_id AND r.attempt_id = a.id AND r.id <= :result
      AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)) AS counts,
  o.outcome, o.reason, o.started_at, o.ended_at, o.wall_ms, o.waited_ms, o.turns, o.tool_calls, o.calls,
  o.input_tokens, o.output_tokens, o.cached_tokens, o.cache_write_tokens, o.reasoning_tokens,
  o.cost_nusd, o.cost_source, o.model_resolved, o.detail
FROM attempt a
LEFT JOIN outcome o ON o.attempt_id = a.id
WHERE a.run_id = :run AND a.id <= :attempt
ORDER BY a.number
