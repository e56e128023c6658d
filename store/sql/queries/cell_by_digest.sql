SELECT id FROM cell WHERE digest = ?
