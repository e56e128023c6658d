-- Verdict counts of each verifier on a sweep's current results, by cell: the last pass of each attempt.
SELECT r.cell_id, v.verifier, v.kind, v.verdict, count(*) AS count
FROM result r CROSS JOIN verdict v ON v.attempt_id = r.attempt_id
WHERE r.sweep_id = :sweep AND r.id <= :result
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
  AND v.pass_no = (SELECT max(p.pass_no) FROM verdict p WHERE p.attempt_id = v.attempt_id)
GROUP BY r.cell_id, v.verifier, v.kind, v.verdict
ORDER BY r.cell_id, v.verifier, v.kind, v.verdict
