-- zeros: ops that give no zero in golden, and some in the target.
-- grain: one op and the leaf that shows it
-- parameters: the tables paired, noise_ops, noise_leaves and noise_floors
WITH
    -- A kernel that does not write all elements leaves zeros. Rounding makes one only where terms cancel to the last bit,
    -- about once in 2²⁵ elements, but often where terms have few bits, and some thirty times as often where a product cuts
    -- its inputs; ops of a kind that do so more often tell nothing. What only picks elements makes none, but may pick another
    -- one of those that came in. Another implementation may leave out what a mask hides.
    zeros AS (
        SELECT
            o.number,
            any_value(o.kind) AS kind,
            any_value(o.rounding) = 'exact' AS only_picks,
            any_value(o.call_key) AS call_key,
            any_value(o.phase) AS phase,
            min(row) FILTER (WHERE NOT is_input AND target_zeros > 0) AS row,
            max(n) FILTER (WHERE NOT is_input) AS n,
            max(target_zeros) FILTER (WHERE NOT is_input) AS made,
            max(golden_zeros) FILTER (WHERE NOT is_input) AS golden_made,
            coalesce(
                bool_and(
                    coalesce(
                        abs(target_zeros - golden_zeros) <= if(isinf(makes_zeros_from(o.api)), golden_zeros / 8, 0)
                        AND (o.rounding <> 'exact' OR target_zeros = 0),
                        false
                    )
                ) FILTER (WHERE is_input),
                true
            ) AS are_given_alike,
            coalesce(max(golden_zeros / n) FILTER (WHERE is_input), 0) AS share,
            coalesce(bool_or(target_zeros <> golden_zeros) FILTER (WHERE is_input), false) AS others_vanish,
            coalesce(max(greatest(p.golden_shape[-1], p.golden_shape[-2])) FILTER (WHERE NOT is_input), 0) AS longest,
            min(list_product(p.golden_shape[2:])) FILTER (WHERE is_input AND len(p.golden_shape) > 1) AS terms,
            any_value(o.rounding) = 'matmul' AS is_product,
            coalesce(bool_or(is_mirrored) FILTER (WHERE is_input), false) AS are_mirrored,
            coalesce(max(magnitude) FILTER (WHERE is_input), 0) AS magnitude,
            makes_zeros_from(any_value(o.api)) AS from_magnitude,
            NOT is_low_precision(max(spacing)) AS is_precise,
            is_normalisation(any_value(o.api)) AS is_normalisation,
            -- numbers of one sign cancel in no sum
            NOT isinf(from_magnitude)
            OR is_precise
            -- a batch norm may round the mean of a channel to 16 bits, too
            OR (is_normalisation AND NOT regexp_matches(any_value(o.api), '(?i)batch|instance'))
            OR coalesce(bool_and(smallest IS NOT NULL) FILTER (WHERE is_input), false) AS is_regular
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        LEFT JOIN paired AS p USING (row)
        -- most dumps count none
        SEMI JOIN (SELECT number FROM noise_leaves WHERE NOT is_input AND target_zeros IS NOT NULL) AS counted
            ON counted.number = l.number
        WHERE
            o.side = 'pair'
            AND o.is_leaf
            AND o.op_kind <> 'module'
            AND o.phase <> 'optimizer'
            AND l.role IN ('input', 'output')
            AND l.is_float
            AND l.is_like
            AND getvariable('cross_framework') = 0
            AND makes_zeros_from(o.api) IS NOT NULL
        GROUP BY o.number
    )
SELECT number, row
FROM zeros
CROSS JOIN (SELECT floor > 1e-4 AS are_cut FROM noise_floors WHERE rounding = 'matmul') AS products
CROSS JOIN (SELECT coalesce(bool_or(is_low_precision(spacing)), false) AS is_low FROM noise_leaves) AS precision
QUALIFY
    golden_made = 0
    AND made > if(only_picks OR sum(if(only_picks, 0, n)) OVER () < 2e6, 0, 3 + n / 1e6)
    -- numbers that are there with either sign, as of a cosine transform, cancel where two of few bits are equal
    AND (NOT (is_product AND are_cut AND is_precise) OR made > 1 + n / if(are_mirrored, 1e3, 3e4))
    -- numbers of 16 bits that were cast have few bits still, so one may be the mean of its row, and terms may cancel
    AND NOT ((is_normalisation OR is_precise) AND made = 1 AND is_low)
    -- all terms of an element may be zeros
    AND coalesce(n * share ** terms, 0) < 1e-2
    -- where an activation leaves zeros, a channel may have no other, and so a row of the product
    AND NOT (others_vanish AND share > 0.1 AND made <= longest)
    AND are_given_alike
    AND is_regular
    AND magnitude < from_magnitude
    -- a gradient vanishes where a function is flat; that of a parameter is a sum that may cancel
    AND (
        phase = 'forward'
        OR (
            is_precise
            AND isfinite(from_magnitude)
            AND NOT only_picks
            AND max(magnitude) FILTER (WHERE phase = 'forward') OVER (PARTITION BY call_key) < 8
        )
    )
    AND count(*) FILTER (WHERE made <> golden_made AND are_given_alike) OVER (PARTITION BY kind)
    <= greatest(1, count(*) OVER (PARTITION BY kind) / 8)
