-- Whether a process still holds a claim: no other attempt has claimed the run since, and no result has replaced it.
SELECT NOT EXISTS (SELECT 1 FROM attempt a WHERE a.run_id = :run AND a.number > :number)
  AND NOT EXISTS (SELECT 1 FROM result x WHERE x.run_id = :run AND ifnull(x.supersedes, 0) = ifnull(:supersedes, 0))
