-- wiring: ops of which one op made an input in golden, and another op, or none, in the target.
-- grain: one op and the leaf that shows it
-- parameters: the tables noise_ops, noise_makers, noise_leaves, noise_floors and noise_largest_before; thresholds
WITH
    matmul_floor AS (
        SELECT floor FROM noise_floors WHERE rounding = 'matmul'
    ),
    -- What made a value that only one run takes as an op gave it. A value of which a part is negated or turned, as by a rotary
    -- embedding, may have kept its maker's extremes in one run by chance. It has its maker's norm in both, and differs as its
    -- maker does.
    one_sided AS (
        SELECT
            m.row,
            max(made.upper) AS error,
            bool_or(
                made.upper > 0.3 * m.upper
                AND abs(made.target_norm - taken.target_norm) <= getvariable('same_norm') * taken.target_norm
                AND abs(made.golden_norm - taken.golden_norm) <= getvariable('same_norm') * taken.golden_norm
            ) AS is_turned
        FROM (
            SELECT row, upper, unnest(if(len(target_makers) > 0, target_makers, golden_makers)) AS maker
            FROM noise_makers
            WHERE is_leaf AND (len(golden_makers) > 0) <> (len(target_makers) > 0)
        ) AS m
        JOIN noise_leaves AS taken USING (row)
        JOIN noise_leaves AS made
            ON made.number = m.maker
            AND NOT made.is_input
            AND made.is_paired
            AND made.n = taken.n
        GROUP BY m.row
    ),
    transfers AS (
        SELECT number FROM noise_ops WHERE op LIKE '%Distributed.%'
    )
SELECT number, min(row) AS row
FROM noise_makers
JOIN noise_largest_before AS before USING (number)
LEFT JOIN one_sided USING (row)
CROSS JOIN matmul_floor
WHERE
    is_leaf
    AND upper > getvariable('floor_factor') * floor
    AND is_turned IS DISTINCT FROM true
    -- all probabilities of low precision look alike: their norms, too, have few digits
    AND NOT (is_bounded AND is_low_precision(spacing))
    AND (phase <> 'optimizer' OR NOT is_low_precision(spacing))
    -- a value put together of two parts, each turned, may keep its maker's extremes and norm in one run by chance
    AND NOT (is_low_precision(spacing) AND coalesce(noise_makers.error <= 0.02, false))
    AND (
        (
            len(target_makers) > 0
            AND len(golden_makers) > 0
            AND NOT list_has_any(target_makers, golden_makers)
            AND upper > 0.02
        )
        OR (
            phase = 'forward'
            AND (len(golden_makers) > 0) <> (len(target_makers) > 0)
            AND (
                (target_key IS NOT NULL AND golden_key IS NOT NULL)
                -- a constant has no key, so it may be what its maker gave unless that errs less; blame follows one that is sent
                OR (
                    n >= 8
                    AND NOT is_bounded
                    AND upper > 0.02
                    AND upper > 10 * one_sided.error
                    AND number NOT IN (FROM transfers)
                )
            )
            AND is_float
            -- a cast to 16 bits and back, which no op records, moves a value less than another one is apart
            AND upper > if(
                getvariable('cross_framework') = 0 AND n >= 8 AND NOT is_low_precision(spacing),
                least(0.02, greatest(2.0 ** -15, 3 * before.tensor_error, 10 * coalesce(one_sided.error, 1))),
                0.02
            )
        )
    )
GROUP BY number
