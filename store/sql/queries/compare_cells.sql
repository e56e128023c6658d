-- A page of a sweep's cells, or of some (a JSON list of ids), each with its aggregates: the one query behind every
-- comparison. Judged here excludes runs that ended in an error, although a lab judges them. Token sums and times are
-- over judged runs that reported every number in them. The bound of 10^15 keeps a provider's figures from overflowing a
-- sum; instr() avoids parsing a detail that lacks the key.
SELECT p.cell_id, p.planned,
  count(r.id) AS finished,
  ifnull(sum(r.outcome = 'pass'), 0) AS passes,
  ifnull(sum(r.judged AND r.outcome <> 'error'), 0) AS judged,
  ifnull(sum(r.outcome = 'budget_exceeded'), 0) AS budget_exceeded,
  ifnull(sum(r.outcome = 'error'), 0) AS errored,
  ifnull(sum(r.outcome = 'skipped'), 0) AS skipped,
  ifnull(sum(min(o.input_tokens, 1000000000000000))
    FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.output_tokens IS NOT NULL), 0) AS input_tokens,
  ifnull(sum(min(o.output_tokens, 1000000000000000))
    FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.input_tokens IS NOT NULL), 0) AS output_tokens,
  count(*) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.input_tokens IS NOT NULL AND o.output_tokens IS NOT NULL) AS token_runs,
  ifnull(sum(min(o.cached_tokens, 1000000000000000)) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.input_tokens IS NOT NULL
    AND NOT (instr(o.detail, '"cachedPartial"') AND json_extract(o.detail, '$.cachedPartial') IS NOT NULL)), 0) AS cached_tokens,
  ifnull(sum(min(o.input_tokens, 1000000000000000)) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.cached_tokens IS NOT NULL
    AND NOT (instr(o.detail, '"cachedPartial"') AND json_extract(o.detail, '$.cachedPartial') IS NOT NULL)), 0) AS cached_input,
  count(*) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.input_tokens IS NOT NULL AND o.cached_tokens IS NOT NULL
    AND NOT (instr(o.detail, '"cachedPartial"') AND json_extract(o.detail, '$.cachedPartial') IS NOT NULL)) AS cached_runs,
  count(*) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND instr(o.detail, '"compaction"')
    AND json_type(o.detail, '$.compaction') IS NOT NULL) AS compacted,
  json_group_array(o.wall_ms) FILTER (WHERE (r.judged AND r.outcome <> 'error') AND o.wall_ms IS NOT NULL) AS walls_ms,
  json_group_array(json_extract(o.detail, '$.incidents'))
    FILTER (WHERE instr(o.detail, '"incidents"') AND json_type(o.detail, '$.incidents') IS NOT NULL) AS incidents,
  json_group_array(DISTINCT o.model_resolved) FILTER (WHERE o.model_resolved IS NOT NULL) AS models
FROM (
  SELECT run.cell_id, count(*) AS planned
  FROM run
  WHERE run.sweep_id = :sweep AND run.cell_id > :cell
    AND (:cells IS NULL OR run.cell_id IN (SELECT value FROM json_each(:cells)))
  GROUP BY run.cell_id
  ORDER BY run.cell_id
  LIMIT :limit
) p
LEFT JOIN result r ON r.sweep_id = :sweep AND r.cell_id = p.cell_id AND r.id <= :result
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
LEFT JOIN outcome o ON o.attempt_id = r.attempt_id
GROUP BY p.cell_id
ORDER BY p.cell_id
