-- floors: what ops of each way of rounding add at least, as this comparison shows it.
-- grain: one way of rounding (macros/rounding_of)
-- parameters: the tables noise_ops, noise_leaves and noise_errors; thresholds
-- floor: the lower quartile of the errors that forward ops of this way put out, at most what the coarsest chip does; and
--   other ops add no more than matmuls do
-- most: what the coarsest chip does (matmuls may cut their inputs to 10 bits)
-- is_bitwise: forward ops whose inputs agree to the last bit give outputs that do, in every way of rounding in which
--   outputs differ, so that nothing rounds differently here; or
--   too little differs to tell. Two implementations always round differently.
-- Digests alone show no error. Between chips all ops that compute put out another digest; on one chip most of those whose
--   inputs agree do not.
WITH
    worst(rounding, most, most_low) AS (
        VALUES
        ('exact', 1e-6, 1e-6),
        ('matmul', getvariable('coarsest_matmul'), getvariable('coarsest_low')),
        ('other', getvariable('coarsest_other'), getvariable('coarsest_low'))
    ),
    ops AS (
        SELECT *
        FROM noise_ops
        JOIN noise_errors USING (number)
        WHERE side = 'pair' AND is_leaf AND phase <> 'optimizer'
    ),
    low AS (
        SELECT
            rounding,
            quantile_disc(error_out, 0.25) FILTER (WHERE error_out > 0 AND phase = 'forward') AS quartile
        FROM ops
        GROUP BY rounding
    ),
    all_ops AS (
        SELECT coalesce(max(spacing) >= 2.0 ** -10, false) AS is_low FROM ops
    ),
    touched AS (
        SELECT count(*) AS ops
        FROM noise_ops
        JOIN noise_errors USING (number)
        WHERE side = 'pair' AND is_leaf AND error_out > 0
    ),
    -- what becomes of inputs that agree to the last bit
    repeatable AS (
        SELECT min(coalesce(share, 0)) >= 0.6 AS is_bitwise
        FROM (
            SELECT avg((error_out = 0)::INTEGER) FILTER (WHERE error_in = 0) AS share
            FROM ops
            WHERE rounding <> 'exact' AND phase = 'forward'
            GROUP BY rounding
            HAVING max(error_out) > 0
        )
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
    )
SELECT
    rounding,
    if(is_low, most_low, worst.most) AS most,
    greatest(least(coalesce(quartile, 1), most, if(rounding = 'other', (SELECT quartile FROM low WHERE rounding = 'matmul'), NULL)), if(is_low, 2.0 ** -10, 1e-7)) AS floor,
    if(touched.ops = 0, NOT digests.are_rounding, touched.ops < 16 OR coalesce(is_bitwise, true))
    AND getvariable('cross_framework') = 0 AS is_bitwise
FROM worst
CROSS JOIN all_ops
CROSS JOIN repeatable
CROSS JOIN touched
CROSS JOIN digests
LEFT JOIN low USING (rounding)
