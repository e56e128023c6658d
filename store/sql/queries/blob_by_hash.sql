SELECT id FROM blob WHERE hash = ?
