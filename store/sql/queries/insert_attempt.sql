INSERT INTO attempt (run_id, number, worker_id, claimed_at) VALUES (?, ?, ?, ?)
