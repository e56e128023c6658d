-- One lineage over time: a point per sweep and model.
SELECT c.sweep_id, cell.model, min(c.at) AS at, sum(c.outcome = 'pass') AS passes, count(*) AS judged,
  avg(c.composite) AS composite
FROM cell JOIN current c ON c.cell_id = cell.id JOIN sweep s ON s.id = c.sweep_id
WHERE cell.fingerprint = :fingerprint AND c.judged AND s.purpose IN ('sweep', 'import')
GROUP BY c.sweep_id, cell.model
