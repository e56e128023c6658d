-- Whole history: judged runs and mean composite per cell, through the view.
SELECT c.cell_id, count(*) AS judged, avg(c.composite) AS composite
FROM current c
WHERE c.judged
GROUP BY c.cell_id
