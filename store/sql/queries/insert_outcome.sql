-- The first outcome of an attempt wins; a second one changes nothing.
INSERT INTO outcome (attempt_id, run_id, outcome, reason, started_at, ended_at, wall_ms, waited_ms, turns, tool_calls,
  calls, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_nusd, cost_source,
  model_resolved, decision_status, detail)
SELECT :attempt_id, :run_id, :outcome, :reason, :started_at, :ended_at, :wall_ms, :waited_ms, :turns, :tool_calls,
  :calls, :input_tokens, :output_tokens, :cached_tokens, :cache_write_tokens, :reasoning_tokens, :cost_nusd,
  :cost_source, :model_resolved, :decision_status, :detail
WHERE NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = :attempt_id)
