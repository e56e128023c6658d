-- The number of the next pass of verifiers over an attempt; the run's own is 0.
SELECT ifnull(max(v.pass_no), 0) + 1 FROM verdict v WHERE v.attempt_id = ?
