-- Spending of a sweep, or of one variant. An ended attempt counts by its outcome: `detail.spent` covers every request,
-- the columns only those behind the answer. A killed attempt counts by its events. The bound of 10^15 keeps a
-- provider's figures from overflowing a sum.
SELECT ifnull(sum(min(calls, 1000000000000000)), 0) AS calls,
  ifnull(sum(min(tokens, 1000000000000000)), 0) AS tokens,
  ifnull(sum(min(nusd, 1000000000000000)), 0) AS nusd
FROM (
  SELECT
    CAST(coalesce(json_extract(o.detail, '$.spent.calls'), o.calls, 0) AS INTEGER) AS calls,
    CAST(coalesce(json_extract(o.detail, '$.spent.tokens'), ifnull(o.input_tokens, 0) + ifnull(o.output_tokens, 0))
      AS INTEGER) AS tokens,
    CAST(coalesce(json_extract(o.detail, '$.spent.nusd'), o.cost_nusd, 0) AS INTEGER) AS nusd
  FROM run CROSS JOIN attempt a ON a.run_id = run.id CROSS JOIN outcome o ON o.attempt_id = a.id
  WHERE run.sweep_id = :sweep AND a.id <= :attempt
    AND (:variant IS NULL OR EXISTS (SELECT 1 FROM cell WHERE cell.id = run.cell_id AND cell.variant = :variant))
  UNION ALL
  SELECT
    e.kind = 'call_sent',
    CAST(ifnull(json_extract(e.payload, '$.usage.input'), 0) + ifnull(json_extract(e.payload, '$.usage.output'), 0)
      AS INTEGER),
    CAST(ifnull(json_extract(e.payload, '$.cost_nusd'), 0) AS INTEGER)
  FROM run CROSS JOIN attempt a ON a.run_id = run.id CROSS JOIN event e ON e.attempt_id = a.id
  WHERE run.sweep_id = :sweep AND a.id <= :attempt
    AND (:variant IS NULL OR EXISTS (SELECT 1 FROM cell WHERE cell.id = run.cell_id AND cell.variant = :variant))
    AND e.kind IN ('call_sent', 'call')
    AND NOT EXISTS (SELECT 1 FROM outcome o WHERE o.attempt_id = a.id)
)
