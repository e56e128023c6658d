INSERT INTO control (sweep_id, verb, who, why, payload, at) VALUES (?, ?, ?, ?, ?, ?)
