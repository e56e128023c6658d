SELECT ifnull(max(id), 0) FROM result
