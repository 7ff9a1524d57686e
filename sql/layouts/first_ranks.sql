-- first_ranks: the ranks that have the first shard of a leaf of the whole.
-- grain: one rank
-- parameters: after whole_rows
SELECT DISTINCT first_rank
FROM whole_rows
ORDER BY first_rank
