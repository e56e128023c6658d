-- The newest cell of a lineage, to compare a case's content with.
SELECT document FROM cell WHERE fingerprint = ? ORDER BY id DESC LIMIT 1
