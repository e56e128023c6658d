-- The cells of a sweep's plan, of one variant or of all, by the index on sweep and cell.
SELECT id, suite_id, suite_version, case_id, case_version, variant, target, model, fingerprint, config_hash
FROM cell
WHERE id IN (SELECT run.cell_id FROM run WHERE run.sweep_id = :sweep)
  AND (:variant IS NULL OR variant = :variant)
ORDER BY id
