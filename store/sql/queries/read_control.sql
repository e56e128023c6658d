SELECT id, verb, who, why, payload, at FROM control WHERE sweep_id = :sweep AND id <= :control ORDER BY id
