-- golden_none: an empty table in place of golden_run, if there is no golden run.
-- grain: no rows
SELECT step, rank, row, kinds
FROM overflow_leaves
WHERE false
