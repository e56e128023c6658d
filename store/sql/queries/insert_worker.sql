INSERT INTO worker (host, pid, boot, born, version, started_at) VALUES (?, ?, ?, ?, ?, ?)
