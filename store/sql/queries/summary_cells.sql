-- Whole history: the same as summary_current, computed as everything minus the superseded; cheaper, since that is
-- little.
WITH
  whole AS (SELECT cell_id, sum(judged) AS n, sum(composite) AS s FROM result WHERE judged GROUP BY cell_id),
  old AS (
    SELECT p.cell_id, sum(p.judged) AS n, sum(p.composite) AS s
    FROM result x CROSS JOIN result p ON p.id = x.supersedes
    WHERE x.supersedes IS NOT NULL AND p.judged
    GROUP BY p.cell_id)
SELECT whole.cell_id, whole.n - ifnull(old.n, 0) AS judged,
  (whole.s - ifnull(old.s, 0)) / (whole.n - ifnull(old.n, 0)) AS composite
FROM whole LEFT JOIN old USING (cell_id)
WHERE whole.n > ifnull(old.n, 0)
