INSERT INTO run (sweep_id, position, cell_id, repetition, pair) VALUES (?, ?, ?, ?, ?)
