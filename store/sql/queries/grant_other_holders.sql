-- Other live processes that may still return a balance: their last row is not a `settle`, which returns everything.
SELECT count(*) FROM lease l
WHERE l.expires_at > :now AND l.worker_id <> :worker
  AND (SELECT s.kind FROM spend s WHERE s.sweep_id = :sweep AND s.worker_id = l.worker_id
       ORDER BY s.seq DESC LIMIT 1) <> 'settle'
