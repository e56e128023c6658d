-- Whole history: the newest and the oldest judged composite of every cell, by index seeks.
SELECT cell.fingerprint,
  (SELECT c.composite FROM current c WHERE c.cell_id = cell.id AND c.judged ORDER BY c.at DESC LIMIT 1) AS latest,
  (SELECT c.composite FROM current c WHERE c.cell_id = cell.id AND c.judged ORDER BY c.at LIMIT 1) AS earliest
FROM cell
