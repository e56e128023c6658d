INSERT INTO lease (worker_id, expires_at) VALUES (?, ?)
ON CONFLICT (worker_id) DO UPDATE SET expires_at = excluded.expires_at
