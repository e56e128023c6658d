-- The number of current results of a sweep that are newer than a time.
SELECT count(*) AS count
FROM result r
WHERE r.sweep_id = :sweep AND r.id <= :result AND r.at >= :since AND r.again = 0
  AND NOT EXISTS (SELECT 1 FROM result n WHERE n.supersedes = r.id AND n.id <= :result)
