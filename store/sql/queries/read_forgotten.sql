SELECT who, why, at FROM forgotten WHERE blob_id = :blob
