-- The runs that a resume repeats: those without a final current result, in the run order.
SELECT id, position FROM unfinished WHERE sweep_id = :sweep ORDER BY position
