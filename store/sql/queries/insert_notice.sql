INSERT INTO notice (sweep_id, worker_id, at, kind, payload) VALUES (?, ?, ?, ?, ?)
