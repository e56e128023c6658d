INSERT INTO verdict (attempt_id, pass_no, verifier, kind, verdict, score, detail) VALUES (?, ?, ?, ?, ?, ?, ?)
