-- stopped: parameters' gradients that are nothing but zeros in one run, and more than what cancels in the other, as behind a
--   branch that is detached.
-- grain: one op and the leaf that shows it
-- parameters: the table noise_leaves
WITH
    gradients AS (
        SELECT number, row, target_norm, golden_norm, magnitude, max(magnitude) OVER () AS largest
        FROM noise_leaves
        WHERE role = 'parameters_grad' AND is_paired AND is_like AND is_float AND n > 1
    ),
    -- an expert to which a choice that flipped sends nothing has no gradient either
    flips AS (
        SELECT count(*) > 0 AS are_there
        FROM noise_leaves
        WHERE role = 'output' AND op_is_leaf AND NOT is_float AND (differs OR NOT is_like)
    )
SELECT number, min(row) AS row
FROM gradients
CROSS JOIN flips
WHERE
    (target_norm = 0) <> (golden_norm = 0)
    -- less than this may be 0 in 16 bits
    AND magnitude > greatest(2.0 ** -14, largest / 10_000)
    AND NOT are_there
GROUP BY number
