-- floors: the least error that ops of each way of rounding add, measured in this comparison.
-- grain: one way of rounding (macros/rounding_of)
-- parameters: the tables noise_ops, noise_leaves, noise_errors, noise_nearest and noise_repeated; thresholds
-- floor: the lower quartile of the output errors of forward ops of this way, at most that of the coarsest chip; other
--   ops add no more than matrix products. Behind an early defect all errors are large: so no more than three times that
--   quartile of the ops into which the least error came, an eighth of them and four at least. Of products those count of
--   which a bias is not most, if there are any
-- most: the error of the coarsest chip (matrix products may cut their inputs to 10 bits)
-- is_bitwise: nothing rounds differently in the two runs: in every way of rounding in which outputs differ, most
--   forward ops with equal inputs have equal outputs, by all statistics, of which the least rounding moves one; or too few
--   ops differ to tell, and one of them by more than rounding. Two implementations always round differently.
-- A repeat that replaces golden may equal the target to the last bit: the two runs round differently all the same.
-- Digests alone have no error. Between chips the digest of every computed output differs; on one chip it is equal for
--   most ops with equal inputs.
WITH
    worst(rounding, most, most_low) AS (
        VALUES
        ('exact', 1e-6, 1e-6),
        ('matmul', getvariable('coarsest_matmul'), getvariable('coarsest_low')),
        ('other', getvariable('coarsest_other'), getvariable('coarsest_low'))
    ),
    -- a product of which a bias is most rounds as the bias does
    biased AS (
        SELECT number
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE
            side = 'pair'
            AND noise_ops.phase = 'forward'
            AND op_kind <> 'module'
            AND regexp_matches(api, '(?i)^(linear|dense|addmm|baddbmm|conv\w*)$')
            AND is_paired
            AND is_float
        GROUP BY number
        HAVING max(golden_norm / sqrt(n)) FILTER (WHERE is_input AND n = width) > max(golden_norm / sqrt(n)) FILTER (WHERE NOT is_input) / 2
    ),
    -- golden's result times a number: what is left is how the op rounds, if it grew, since cut factors make it smaller. To the
    -- last digits it does not round differently
    multiplied AS (
        SELECT
            number,
            max(greatest(scatter, left_of_mean / sqrt(n))) AS left_over,
            max(spacing) AS spacing
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE
            NOT is_input
            AND n >= 8
            AND NOT is_low_precision(spacing)
            AND abs(shift) > greatest(20 * scatter, 20 * left_of_mean / sqrt(n), 40 * spacing)
        GROUP BY number
        HAVING
            left_over <= 2 * max(spacing)
            OR (bool_and(multiplies_once(api)) AND min(shift) > getvariable('coarsest_matmul') / 20)
    ),
    -- products of single numbers: nothing is summed
    outer_products AS (
        SELECT number
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE noise_ops.rounding = 'matmul' AND is_float AND is_paired
        GROUP BY number
        HAVING product(n) FILTER (WHERE is_input) = max(n) FILTER (WHERE NOT is_input)
    ),
    -- no chip cuts the inputs of products of vectors: they do not tell how those of matrices round
    ops AS (
        SELECT *, upper_out = 0 OR number IN (SELECT number FROM multiplied WHERE left_over <= 2 * spacing) AS is_repeated
        FROM noise_ops
        JOIN noise_errors USING (number)
        ANTI JOIN outer_products USING (number)
        WHERE
            side = 'pair'
            AND is_leaf
            AND phase <> 'optimizer'
            AND NOT regexp_matches(api, '(?i)^(mv|addmv|dot|vdot|inner)$')
    ),
    near AS (
        SELECT count(*) > 0 AS is_near FROM noise_nearest
    ),
    erring AS (
        SELECT
            rounding,
            least(error_out, left_over) AS error_out,
            number IN (FROM biased) AS is_biased,
            row_number() OVER (PARTITION BY rounding ORDER BY error_in, number) <= greatest(4, count(*) OVER (PARTITION BY rounding) / 8)
                AS is_early
        FROM ops
        LEFT JOIN (SELECT number, left_over FROM multiplied) AS multiplied USING (number)
        CROSS JOIN near
        WHERE phase = 'forward' AND (ops.error_out > 0 OR is_near)
    ),
    low AS (
        SELECT
            rounding,
            least(
                quantile_disc(error_out, 0.25),
                3 * quantile_disc(error_out, 0.25) FILTER (WHERE is_early)
            ) AS quartile
        FROM (FROM erring QUALIFY NOT is_biased OR bool_and(is_biased) OVER (PARTITION BY rounding))
        GROUP BY rounding
    ),
    all_ops AS (
        SELECT coalesce(is_low_precision(max(spacing)), false) AS is_low FROM ops
    ),
    touched AS (
        SELECT count(*) AS touched_ops
        FROM noise_ops
        JOIN noise_errors USING (number)
        WHERE side = 'pair' AND is_leaf AND error_out > 0
    ),
    -- where few ops differ: what the first of them add, or all, if none has equal inputs, is no larger than rounding
    small AS (
        SELECT
            bool_and(error_out <= size) AS are_all_small,
            bool_and(error_out <= size) FILTER (WHERE error_in = 0) AS are_first_small
        FROM (
            SELECT error_in, error_out, if(is_low_precision(spacing), spacing, 64 * spacing) AS size
            FROM ops
            WHERE phase = 'forward' AND error_out > 0
        )
    ),
    -- masks, zeros and ones come out alike however ops round
    masks AS (
        SELECT number FROM noise_leaves WHERE NOT is_input AND is_float GROUP BY number HAVING bool_and(is_masked OR is_bounded)
    ),
    -- what becomes of inputs that agree to the last bit: where none do, other ops round no more than products do. Beside ops
    -- of low precision, which hide what rounding changes, those of full precision tell
    shares AS (
        SELECT rounding, 0.6 AS least, avg(is_repeated::INTEGER) FILTER (WHERE error_in = 0) AS share
        FROM ops
        ANTI JOIN masks USING (number)
        WHERE rounding <> 'exact' AND phase = 'forward'
        GROUP BY rounding
        HAVING max(upper_out) > 0
        UNION ALL
        SELECT 'low', 0.85, avg(is_repeated::INTEGER) FILTER (WHERE error_in = 0)
        FROM ops
        ANTI JOIN masks USING (number)
        CROSS JOIN all_ops
        WHERE is_low AND NOT is_low_precision(spacing) AND rounding <> 'exact' AND phase = 'forward'
        HAVING count(*) FILTER (WHERE error_in = 0) >= 3
    ),
    repeatable AS (
        SELECT bool_and(coalesce(share, if(rounding = 'other', of_products, 0), 0) >= least) AS is_bitwise
        FROM shares
        CROSS JOIN (SELECT max(share) FILTER (WHERE rounding = 'matmul') AS of_products FROM shares)
    ),
    digests AS (
        SELECT coalesce(bool_or(differs), false) AND avg(differs::INTEGER) > 0.4 AS are_rounding
        FROM (
            SELECT bool_or(differs) FILTER (WHERE NOT is_input) AS differs
            FROM noise_leaves
            JOIN noise_ops USING (number)
            WHERE side = 'pair' AND noise_ops.is_leaf AND noise_ops.phase = 'forward' AND noise_ops.rounding <> 'exact'
                AND is_paired AND target_norm IS NULL AND golden_norm IS NULL
            GROUP BY number
            HAVING bool_or(differs) FILTER (WHERE is_input) = false
        )
    ),
    -- apart, because DuckDB looks for the best order of what is joined here and below
    whole AS MATERIALIZED (
        FROM all_ops
        CROSS JOIN near
        CROSS JOIN repeatable
        CROSS JOIN touched
        CROSS JOIN small
        CROSS JOIN digests
    )
SELECT
    rounding,
    if(is_low, most_low, worst.most) AS most,
    greatest(least(coalesce(quartile, 1), most, if(rounding = 'other', (SELECT quartile FROM low WHERE rounding = 'matmul'), NULL)), if(is_low, 2.0 ** -10, 1e-7)) AS floor,
    CASE
        WHEN touched_ops = 0 THEN NOT are_rounding
        WHEN touched_ops < 16 THEN coalesce(is_bitwise, true) OR NOT coalesce(are_first_small, are_all_small, false)
        ELSE coalesce(is_bitwise, true)
    END
    AND getvariable('cross_framework') = 0
    AND NOT is_near
    -- errors come of the parameters, which are off by a rounding, and how much ops magnify them is to be measured
    AND NOT EXISTS (FROM noise_repeated WHERE is_moved) AS is_bitwise
FROM worst
CROSS JOIN whole
LEFT JOIN low USING (rounding)
