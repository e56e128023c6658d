-- What a resume has to do: runs without a current result that stands, in the stored order.
SELECT id, position FROM unfinished WHERE sweep_id = :sweep ORDER BY position
