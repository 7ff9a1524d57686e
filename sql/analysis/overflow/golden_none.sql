-- golden_none: the place of golden_run where there is no golden run.
-- grain: no rows
SELECT step, rank, row, kinds
FROM overflow_leaves
WHERE false
