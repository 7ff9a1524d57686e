-- added: how far the output error of each op exceeds its input error and the usual error of its kind.
-- grain: one op of noise_errors that is not the optimizer's; a module with ops in it only if it contains no module and
--   none of its ops explains its output
-- parameters: the tables noise_ops, noise_errors, noise_floors and noise_repeat
-- flips: noise can move an element over the kink of a function, so that its gradient appears or vanishes as a whole:
--   the gradient of a large element, or of a few; or over a step, as of ceil, so that it changes by as much as it is
-- gain: decades of error_out above the input error and the floor of its way of rounding; lower_gain likewise of
--   lower_out
-- usual, spread: the median gain of the other ops of its kind and its spread (1.4826 · median deviation). Two ops
--   without gain are added, so that a kind with few members says little. At least the gain of the op itself in a repeat
--   of golden
-- above: decades of the gain above the usual; little more than the lower gain, unless it is far above (one element)
-- score: that in spreads, less one; a single number, as beside a mask, says less than a tensor, and flipped masks are magnified
--   backwards. What four statistics estimate scatters, and may be next to nothing of what came in: so no more than error_out
--   stands out of those of the earlier ops of its kind into which little came, if there are five
WITH
    module_parents AS (
        SELECT DISTINCT parent AS forward_op FROM noise_ops WHERE op_kind = 'module' AND parent IS NOT NULL
    ),
    innermost AS (
        SELECT number, op
        FROM (
            SELECT number, op, replace(op, '.backward.', '.forward.') AS forward_op
            FROM noise_ops
            WHERE side = 'pair' AND op_kind = 'module' AND NOT is_leaf
        )
        ANTI JOIN module_parents USING (forward_op)
    ),
    unseen_inside AS (
        SELECT innermost.number
        FROM innermost
        JOIN noise_errors AS own ON own.number = innermost.number
        JOIN noise_ops AS inside ON inside.parent = innermost.op AND inside.side = 'pair'
        LEFT JOIN noise_errors AS inside_errors ON inside_errors.number = inside.number
        GROUP BY innermost.number, own.error_out
        HAVING coalesce(max(inside_errors.upper_out), 0) < 0.1 * own.error_out
    ),
    ops AS (
        SELECT
            o.number,
            o.golden_seq,
            o.kind,
            o.phase,
            o.direction = 'parameters_grad' AS is_gradient,
            o.is_leaf OR unseen_inside.number IS NOT NULL AS may_add,
            n,
            coalesce(is_masked, false) AS is_masked,
            error_in,
            error_out,
            lower_out,
            floor AS kind_floor,
            most,
            CASE
                WHEN o.phase = 'backward' AND has_kink(api) THEN 4 / sqrt(n)
                WHEN o.phase = 'forward' AND has_steps(api) AND (error_in > 0 OR NOT is_bitwise) THEN 1
                ELSE 0
            END AS flips,
            condition * sqrt(error_in ** 2 + greatest(floor, if(o.rounding = 'exact', 0, spacing)) ** 2 + flips ** 2 + coalesce(replaced, 0) ** 2) AS expected,
            log10(greatest(error_out, 1e-8) / expected) AS gain,
            log10(greatest(lower_out, 1e-8) / expected) AS lower_gain
        FROM noise_ops AS o
        JOIN noise_errors USING (number)
        JOIN noise_floors USING (rounding)
        LEFT JOIN innermost ON innermost.number = o.number
        LEFT JOIN unseen_inside ON unseen_inside.number = o.number
        LEFT JOIN (SELECT golden_seq, replaced FROM noise_repeat) AS repeats USING (golden_seq)
        WHERE side = 'pair' AND phase <> 'optimizer' AND (is_leaf OR innermost.number IS NOT NULL)
    ),
    members AS (
        SELECT number, kind, phase, greatest(gain, 0) AS gain
        FROM ops
        WHERE error_in > 0 AND error_out > 0
        UNION ALL
        SELECT DISTINCT -nothing, kind, phase, 0
        FROM ops
        CROSS JOIN (VALUES (1), (2)) AS gains_of(nothing)
        WHERE error_in > 0 AND error_out > 0
    ),
    kinds AS (
        SELECT kind, phase, count(*) - 2 AS members, median(gain) AS middle, 1.4826 * mad(gain) AS spread
        FROM members
        GROUP BY kind, phase
    ),
    -- worked out before the join, or else members would meet all ops of their kind
    few_members AS MATERIALIZED (
        SELECT members.* FROM members JOIN kinds USING (kind, phase) WHERE kinds.members <= 16
    ),
    -- of a kind of few members the op itself is left out; among many it moves nothing
    few AS (
        SELECT
            ops.number,
            count(*) - 2 AS members,
            median(others.gain) AS middle,
            1.4826 * mad(others.gain) AS spread
        FROM ops
        JOIN few_members AS others USING (kind, phase)
        WHERE ops.number <> others.number
        GROUP BY ops.number
    ),
    calm AS (
        SELECT
            number,
            count(decades) OVER earlier AS calm_members,
            median(decades) OVER earlier AS calm_middle,
            1.4826 * mad(decades) OVER earlier AS calm_spread
        FROM (SELECT *, if(error_in <= 10 * kind_floor AND error_out > 0, log10(error_out), NULL) AS decades FROM ops)
        WINDOW earlier AS (PARTITION BY kind, phase ORDER BY number ROWS BETWEEN 64 PRECEDING AND 1 PRECEDING)
    ),
    placed AS (
        SELECT
            ops.*,
            if(
                calm_members >= 5,
                (log10(greatest(ops.error_out, 1e-8)) - calm_middle) / sqrt(calm_spread ** 2 + 0.3 ** 2) - 1,
                NULL
            ) AS calm_score,
            greatest(coalesce(few.middle, kinds.middle, 0), noise_repeat.gain) AS usual,
            coalesce(few.spread, kinds.spread, 0) AS spread,
            coalesce(few.members, kinds.members - 1, 0) AS members
        FROM ops
        JOIN calm USING (number)
        LEFT JOIN few USING (number)
        LEFT JOIN kinds USING (kind, phase)
        LEFT JOIN noise_repeat USING (golden_seq)
    )
SELECT
    * EXCLUDE (may_add, is_masked, calm_score),
    least(gain, greatest(lower_gain + 0.3, gain - 1.5)) - usual AS above,
    least(above / sqrt(spread ** 2 + 0.3 ** 2 + if(n < 8 OR is_masked, 0.3 ** 2, 0)) - 1, calm_score)
    - if(phase = 'backward', 1, 0) AS score
FROM placed
WHERE may_add
