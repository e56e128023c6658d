-- The newest cell of a lineage: what the case last was.
SELECT document FROM cell WHERE fingerprint = ? ORDER BY id DESC LIMIT 1
