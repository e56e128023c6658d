-- Two variants of a suite's cases, over all history.
SELECT cell.case_id, cell.variant, count(*) AS judged, avg(c.composite) AS composite
FROM cell JOIN current c ON c.cell_id = cell.id
WHERE cell.suite_id = :suite AND cell.variant IN (:candidate, :baseline) AND c.judged
GROUP BY cell.id
