-- made: ops whose inputs agree to the last bit (between implementations those of a matrix product up to rounding), and whose
--   output does not, although such outputs are equal elsewhere, or by more than the coarsest chip rounds; or an extreme of a
--   product moves further than its terms round, or the norm of a sum far more than its terms.
-- grain: one op and one of these reasons
-- parameters: the tables noise_ops, noise_leaves, noise_errors and noise_floors; thresholds
WITH
    -- ‖t‖ - ‖g‖ is at most ‖t - g‖: where max and min stay, as in a row that a mask leaves one element, it tells more.
    -- Gradients are sums that cancel.
    norms AS (
        SELECT number, max(abs(shift)) AS moved
        FROM noise_leaves
        WHERE NOT is_input AND phase = 'forward' AND n > 1
        GROUP BY number
    )
SELECT number
FROM noise_errors
JOIN noise_ops USING (number)
JOIN noise_floors USING (rounding)
LEFT JOIN norms USING (number)
WHERE
    is_leaf
    AND side = 'pair'
    -- what no statistic shows may move an element over a step
    AND (is_bitwise OR NOT has_steps(api))
    -- between implementations few ops of a kind tell how it rounds
    AND error_in <= if(rounding = 'matmul' AND phase = 'forward' AND getvariable('cross_framework') <> 0, 1e-6, 0)
    AND greatest(error_out, moved) > CASE
        -- chips add up products of low precision in float32
        WHEN NOT is_bitwise AND is_low_precision(spacing) AND lower_out > 2 * greatest(spacing, 2 * floor)
            THEN least(getvariable('outright_factor') * most, 4 * greatest(spacing, 2 * floor))
        WHEN NOT is_bitwise THEN getvariable('outright_factor') * most
        -- an element that rounds otherwise moves a tensor of low precision by less than a spacing
        WHEN is_low_precision(spacing) THEN spacing
        ELSE getvariable('noise_factor') * spacing
    END
UNION ALL
-- no element of a product moves further than its terms round, as it does where the rows of a factor are in another order
SELECT number
FROM noise_errors
JOIN noise_ops USING (number)
JOIN noise_floors USING (rounding)
WHERE
    is_leaf
    AND side = 'pair'
    AND phase = 'forward'
    AND rounding = 'matmul'
    AND error_in <= most / 100
    AND extreme_out > extreme_condition * most
UNION ALL
-- the norm of a sum moves no further than its terms err and it rounds, as where the rows of one are in another order
SELECT number
FROM noise_errors
JOIN noise_ops USING (number)
JOIN norms USING (number)
WHERE
    is_leaf
    AND side = 'pair'
    AND phase = 'forward'
    AND is_sum(api)
    AND moved > 100 * spacing
    -- both of the larger norm, as golden's may be what rounding left
    AND moved / (1 + moved) > 100 * error_in
