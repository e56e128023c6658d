SELECT count(*) FROM lease WHERE expires_at > ? AND worker_id <> ?
