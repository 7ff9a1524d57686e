-- functions: how far each activation is from golden's function.
-- grain: one op of the forward pass with one input, whose function rises or falls everywhere and is known (macros/value_at)
-- parameters: the tables paired, noise_ops, noise_leaves and noise_floors; thresholds
-- The columns are those of noise/shifts. The largest element of a function that rises is the function of the largest that it
--   took, and the smallest likewise; of one that falls that of the smallest. What golden does not compute so is another
--   function, as where it has other arguments.
-- shift: how far the quotients of what was given and the function of what was taken are apart in both runs; of the largest
--   and the smallest element the one that tells more. An element in 16 bits rounds visibly, so there both have to tell
-- unit: the rounding of one element
WITH
    monotone AS (
        SELECT api, value_at(api, 2) < value_at(api, 1) AS falls
        FROM (SELECT DISTINCT api FROM noise_ops)
        WHERE value_at(api, 1) IS NOT NULL
    ),
    tensors AS (
        SELECT o.number, o.api, m.falls, l.row, l.is_input, l.n, l.spacing
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        JOIN monotone AS m ON m.api = o.api
        WHERE l.shift IS NOT NULL AND l.role IN ('input', 'output') AND o.is_leaf AND o.phase = 'forward'
    ),
    inputs AS (
        SELECT number, any_value(row) AS row, any_value(n) AS n
        FROM tensors
        WHERE is_input
        GROUP BY number
        HAVING count(*) = 1
    ),
    quotients AS (
        SELECT
            made.number,
            made.spacing,
            is_target,
            is_largest,
            if(
                is_target,
                if(is_largest, given.target_max, given.target_min),
                if(is_largest, given.golden_max, given.golden_min)
            ) / value_at(
                made.api,
                if(
                    is_target,
                    if(is_largest <> falls, taken.target_max, taken.target_min),
                    if(is_largest <> falls, taken.golden_max, taken.golden_min)
                )
            ) AS quotient
        FROM tensors AS made
        JOIN inputs ON inputs.number = made.number AND inputs.n = made.n
        JOIN paired AS given ON given.row = made.row
        JOIN paired AS taken ON taken.row = inputs.row
        CROSS JOIN (VALUES (true, true), (true, false), (false, true), (false, false)) AS ends(is_target, is_largest)
        WHERE NOT made.is_input
    ),
    extremes AS (
        SELECT
            number,
            spacing,
            greatest(if(any_value(most) > getvariable('coarsest_other'), 2.0 ** -10, any_value(most)), spacing / 6) AS unit,
            abs(max(quotient) FILTER (WHERE is_target) - max(quotient) FILTER (WHERE NOT is_target)) AS apart
        FROM quotients
        CROSS JOIN (SELECT most FROM noise_floors WHERE rounding = 'other') AS others
        GROUP BY number, spacing, is_largest
        HAVING abs(max(quotient) FILTER (WHERE NOT is_target) - 1) < 4 * unit AND isfinite(apart)
    ),
    measured AS (
        SELECT
            number,
            if(any_value(is_low_precision(spacing)), if(count(*) = 2, min(apart), NULL), max(apart)) AS shift,
            any_value(unit) AS unit
        FROM extremes
        GROUP BY number
    )
SELECT number, shift, 0.0 AS usual, unit, shift / unit / 2 - 1 AS score, 0 AS members, true AS is_law
FROM measured
WHERE shift IS NOT NULL
