-- The number of a sweep's current results by outcome, reason and flags.
SELECT r.outcome, r.reason, r.judged, r.again, count(*) AS count
FROM result r
WHERE r.sweep_id = :sweep AND r.id <= :result
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
GROUP BY r.outcome, r.reason, r.judged, r.again
ORDER BY r.outcome, r.reason, r.judged, r.again
