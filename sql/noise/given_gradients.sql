-- given_gradients: ops that take a gradient that no recorded op made, and that differs: the first one of the backward pass, a
--   number that was written, a sum of which a summand is missing, and those of the optimizer.
-- grain: one op and the leaf that shows it. An op may be there twice
-- parameters: the tables noise_makers, noise_leaves, noise_ops, noise_errors, noise_floors and noise_largest_before; thresholds
WITH
    matmul_floor AS (
        SELECT floor FROM noise_floors WHERE rounding = 'matmul'
    ),
    -- the gradient with which the compared part of the backward pass begins, as where the loss ends otherwise; a single
    -- number may have the other sign there
    gradients AS (
        SELECT m.number, min(row) AS row
        FROM noise_makers AS m
        JOIN noise_largest_before AS before USING (number)
        CROSS JOIN matmul_floor
        WHERE
            is_source
            AND differs
            AND m.number = (
                SELECT min(number) FROM noise_makers WHERE phase = 'backward' AND is_leaf AND is_float AND n > 1
            )
            AND is_float
            AND n > 1
            AND coalesce(m.upper, 0) > greatest(
                getvariable('outright_error'), getvariable('outright_factor') * floor, 10 * before.error
            )
        GROUP BY m.number
    ),
    -- a number that the program wrote, as the weight of a term of the loss, of which an op makes the gradient of a tensor. Where
    -- rounding moves a value over a kink, a gradient vanishes or has the other sign
    weights AS (
        SELECT m.number, min(m.row) AS row
        FROM noise_makers AS m
        JOIN noise_leaves AS l ON l.row = m.row
        JOIN noise_errors AS made ON made.number = m.number
        WHERE
            m.phase = 'backward'
            AND m.is_leaf
            AND m.is_source
            AND m.is_other_constant
            AND m.n = 1
            AND l.target_mean * l.golden_mean > 0
            AND made.n > 1
        GROUP BY m.number
    ),
    -- of two programs, the sum of the gradients of all uses of a tensor, which no op puts out: one is missing, as where a branch is
    -- detached, if the sum and a gradient of parameters are far off and nothing before is
    sums AS (
        SELECT m.number, min(m.row) AS row
        FROM noise_makers AS m
        JOIN noise_largest_before AS before USING (number)
        JOIN noise_errors AS made USING (number)
        WHERE
            getvariable('cross_framework') <> 0
            AND m.phase = 'backward'
            AND m.is_leaf
            AND len(m.target_makers) + len(m.golden_makers) = 0
            AND m.differs
            AND m.is_float
            AND m.n > 1
            AND m.error > 0.1
            AND made.lower_out > 0.1
            AND before.error < 0.001
            AND EXISTS (
                FROM noise_errors
                JOIN noise_ops USING (number)
                WHERE direction = 'parameters_grad' AND lower_out > 0.1
            )
        GROUP BY m.number
    ),
    largest AS (
        SELECT max(magnitude) AS magnitude FROM noise_makers WHERE phase = 'optimizer' AND is_float AND NOT is_parameter
    ),
    -- what the optimizer takes, if no recorded op made it in one run: gradients that are scaled in place differ all
    -- together, while those that cancel are noise, such as all below a rounding of the largest; later the optimizer also
    -- takes what it kept
    taken AS (
        SELECT number, row, error
        FROM noise_makers
        CROSS JOIN largest
        WHERE
            getvariable('is_first_step')
            AND noise_makers.magnitude > spacing * largest.magnitude
            AND (is_source OR (len(golden_makers) > 0) <> (len(target_makers) > 0))
            AND differs
            AND phase = 'optimizer'
            AND is_float
            AND n > 1
            AND NOT is_parameter
    ),
    gradient_errors AS (
        SELECT phase, coalesce(median(error_out), 0) AS middle
        FROM noise_errors
        JOIN noise_ops USING (number)
        WHERE is_leaf AND phase IN ('backward', 'optimizer') AND number < (SELECT min(number) FROM taken)
        GROUP BY phase
    ),
    updates AS (
        SELECT
            number,
            row,
            greatest(getvariable('outright_error'), getvariable('outright_factor') * floor, 10 * middle) AS usual
        FROM taken
        CROSS JOIN matmul_floor
        CROSS JOIN (SELECT coalesce(max(middle), 0) AS middle FROM gradient_errors)
        QUALIFY
            count(*) OVER () >= 3
            AND median(error) OVER () > usual
            AND row_number() OVER (ORDER BY error > usual DESC NULLS LAST, number, row) = 1
    )
FROM gradients
UNION ALL
FROM weights
UNION ALL
FROM sums
UNION ALL
SELECT number, row FROM updates
