-- nonfinite: the first op in which NaN or inf stands in one run alone, whichever op made it.
-- grain: one op and the leaf that shows it, or none
-- parameters: the table noise_leaves
-- An op that the other run does not have may have made it, as where two programs mask scores in other ways.
SELECT number, min(row) AS row
FROM noise_leaves
WHERE is_nonfinite AND is_paired AND op_is_leaf
GROUP BY number
ORDER BY number
LIMIT 1
