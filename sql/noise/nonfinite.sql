-- nonfinite: the first op in which NaN or inf stands in one run alone, whichever op made it.
-- grain: one op and the leaf that shows it, or none
-- parameters: the table noise_leaves
-- An op that the other run does not have may have made it, as where two programs mask scores in other ways. Behind a gradient
--   that is infinite in both runs, what is added to it or times 0 says nothing.
WITH
    infinite AS (
        SELECT min(number) AS number
        FROM noise_leaves
        WHERE phase = 'backward' AND is_paired AND NOT isfinite(target_norm) AND NOT isfinite(golden_norm)
    )
SELECT l.number, min(l.row) AS row
FROM noise_leaves AS l
LEFT JOIN infinite ON infinite.number < l.number
WHERE l.is_nonfinite AND l.is_paired AND l.op_is_leaf AND infinite.number IS NULL
GROUP BY l.number
ORDER BY l.number
LIMIT 1
