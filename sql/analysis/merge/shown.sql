-- shown: the rows of a sheet that are shown, the first of them.
-- grain: one row name
-- parameters: $most (how many; NULL: all); the table merge_names
FROM merge_names
WHERE $most IS NULL OR number <= $most
