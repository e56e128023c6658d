INSERT INTO file_change (attempt_id, path, change, mode, link, blob_id) VALUES (?, ?, ?, ?, ?, ?)
