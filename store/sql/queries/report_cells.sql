-- A sweep per cell: passes, judged runs, and their cost.
SELECT r.cell_id, sum(r.outcome = 'pass') AS passes, sum(r.judged) AS judged, count(*) AS runs,
  avg(o.wall_ms) AS wall_ms, sum(o.input_tokens) AS input_tokens, sum(o.output_tokens) AS output_tokens,
  sum(o.cost_nusd) AS cost_nusd
FROM result r CROSS JOIN outcome o ON o.attempt_id = r.attempt_id
WHERE r.sweep_id = :sweep AND r.id <= :result
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
GROUP BY r.cell_id
