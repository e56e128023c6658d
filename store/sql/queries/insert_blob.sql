INSERT INTO blob (hash, size, codec, data) VALUES (?, ?, ?, ?)
