DELETE FROM lease WHERE worker_id = ?
