INSERT INTO event (attempt_id, seq, at, kind, payload, blob_id) VALUES (?, ?, ?, ?, ?, ?)
