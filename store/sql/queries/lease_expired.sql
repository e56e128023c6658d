SELECT w.id, w.host, w.pid, w.boot, w.born, w.version, w.started_at
FROM lease l CROSS JOIN worker w ON w.id = l.worker_id
WHERE l.worker_id <> ? AND l.expires_at <= ?
