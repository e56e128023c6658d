SELECT path, change, mode, link, blob_id FROM file_change WHERE attempt_id = :attempt ORDER BY path
