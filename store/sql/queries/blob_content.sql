SELECT codec, data, size FROM blob WHERE id = ?
