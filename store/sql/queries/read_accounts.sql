-- Allotments of each process of a sweep, and its spending by its requests' events. One statement, so that both are as
-- of one moment. A request without a `call` is in flight, or its process was killed.
SELECT worker_id, sum(granting) AS grants, sum(granted_calls) AS granted_calls, sum(granted_tokens) AS granted_tokens,
  sum(granted_nusd) AS granted_nusd, sum(calls) AS calls, sum(tokens) AS tokens, sum(nusd) AS nusd,
  sum(calls) - sum(priced) AS unpriced,
  ifnull((SELECT s.kind = 'settle' FROM spend s WHERE s.sweep_id = :sweep AND s.worker_id = account.worker_id
    ORDER BY s.seq DESC LIMIT 1), 0) AS settled
FROM (
  SELECT worker_id, 1 AS granting, calls AS granted_calls, tokens AS granted_tokens, nusd AS granted_nusd,
    0 AS calls, 0 AS tokens, 0 AS nusd, 0 AS priced
  FROM spend WHERE sweep_id = :sweep
  UNION ALL
  SELECT a.worker_id, 0, 0, 0, 0, e.kind = 'call_sent',
    CAST(ifnull(json_extract(e.payload, '$.tokens'), 0) AS INTEGER),
    CAST(ifnull(json_extract(e.payload, '$.cost_nusd'), 0) AS INTEGER),
    e.kind = 'call' AND json_extract(e.payload, '$.cost_nusd') IS NOT NULL
  FROM run CROSS JOIN attempt a ON a.run_id = run.id CROSS JOIN event e ON e.attempt_id = a.id
  WHERE run.sweep_id = :sweep AND e.kind IN ('call_sent', 'call')
) AS account
GROUP BY worker_id
ORDER BY worker_id
