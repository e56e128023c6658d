-- Whole history: how often a cell's composite fell from one judged result to the next.
SELECT count(*) AS drops
FROM (SELECT composite - lag(composite) OVER (PARTITION BY cell_id ORDER BY at) AS change FROM current WHERE judged)
WHERE change < 0
