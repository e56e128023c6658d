-- The number of the next verification pass over an attempt; the pass of the run itself is 0.
SELECT ifnull(max(v.pass_no), 0) + 1 FROM verdict v WHERE v.attempt_id = ?
