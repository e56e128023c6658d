INSERT INTO spend (sweep_id, seq, worker_id, kind, calls, tokens, nusd, total_calls, total_tokens, total_nusd, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
