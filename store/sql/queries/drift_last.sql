-- The newest results of one lineage.
SELECT c.at, c.composite
FROM cell JOIN current c ON c.cell_id = cell.id
WHERE cell.fingerprint = :fingerprint
ORDER BY c.at DESC
LIMIT :limit
