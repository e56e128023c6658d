INSERT INTO verdict (attempt_id, verifier, kind, verdict, score, detail) VALUES (?, ?, ?, ?, ?, ?)
