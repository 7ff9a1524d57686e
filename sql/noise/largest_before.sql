-- largest_before: the largest error of the ops before each op.
-- grain: one op
-- parameters: the tables noise_ops and noise_errors
-- tensor_error: of tensors; a single number may have lost three digits, which says nothing of them
-- sure_error: without what is left of terms that cancel. That has no sure digit, nor has what is made of it
-- sure_from: but this says nothing of tensors a hundred times larger: the magnitude from which sure_error tells
SELECT
    o.number,
    coalesce(max(error) OVER earlier, 0) AS error,
    coalesce(max(error) FILTER (WHERE e.n >= 8) OVER earlier, 0) AS tensor_error,
    coalesce(max(error) FILTER (WHERE e.n >= 8 AND NOT is_lost) OVER earlier, 0) AS sure_error,
    100 * coalesce(max(magnitude) FILTER (WHERE is_lost) OVER earlier, 0) AS sure_from
FROM noise_ops AS o
LEFT JOIN (
    SELECT
        number,
        n,
        greatest(error_out, upper_out) AS error,
        error_in >= 0.5 AS is_lost,
        magnitude
    FROM noise_errors
) AS e ON e.number = o.number AND o.is_leaf
WINDOW earlier AS (ORDER BY o.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
