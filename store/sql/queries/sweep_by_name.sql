SELECT id FROM sweep WHERE name = ?
