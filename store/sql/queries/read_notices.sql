SELECT id, worker_id, at, kind, payload FROM notice WHERE sweep_id = :sweep AND id <= :notice ORDER BY id
