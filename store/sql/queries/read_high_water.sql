-- The snapshot of a reader: it sees no rows above these ids.
SELECT
  (SELECT ifnull(max(id), 0) FROM sweep) AS sweep,
  (SELECT ifnull(max(id), 0) FROM attempt) AS attempt,
  (SELECT ifnull(max(id), 0) FROM result) AS result,
  (SELECT ifnull(max(id), 0) FROM notice) AS notice,
  (SELECT ifnull(max(id), 0) FROM control) AS control
