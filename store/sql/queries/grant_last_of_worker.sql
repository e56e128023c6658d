SELECT kind FROM spend WHERE sweep_id = ? AND worker_id = ? ORDER BY seq DESC LIMIT 1
