-- Whole history: the number of drops of a cell's composite from one judged result to the next.
SELECT count(*) AS drops
FROM (SELECT composite - lag(composite) OVER (PARTITION BY cell_id ORDER BY at) AS change FROM current WHERE judged)
WHERE change < 0
