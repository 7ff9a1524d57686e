-- jump: a norm, or a number of the script, that leaves the range of its last values at once, upwards or downwards.
-- grain: one value of the series
-- The range is that of the logarithms, by their median and their median absolute deviation: gradients have heavy tails,
-- and a mean would move with the jump. Zeros are left out. A small value alone is not a jump, because the norm of a single
-- number comes near zero by chance, or on its way through zero: the next value has to be small too, and the one before
-- not.
WITH
    limits AS (
        SELECT
            20 AS least_known,  -- values before one is judged
            5.0 AS rise,        -- deviations above the median of the last values, or
            8.0 AS fall,        -- below it: small values have longer tails in logarithms, and
            8.0 AS times,       -- larger or smaller than it, and
            2.0 AS times_range  -- beyond the largest or smallest of all values before
    ),
    recent AS (
        SELECT
            *,
            lag(value) OVER series AS previous_value,
            lead(value) OVER series AS next_value,
            count(*) OVER past AS known,
            max(value) OVER past AS largest,
            min(value) OVER past AS smallest,
            median(ln(value)) OVER recent AS middle,
            1.4826 * mad(ln(value)) OVER recent AS deviation
        FROM watched
        WHERE
            isfinite(value)
            AND NOT skipped
            AND value > 0
            AND metric IN ('norm', 'value')
            AND point NOT IN ('sent', 'received')
            AND NOT starts_with(name, 'learning_rate')
        WINDOW
            series AS (PARTITION BY rank, name, point, metric ORDER BY step, micro_step),
            past AS (
                PARTITION BY rank, name, point, metric
                ORDER BY step, micro_step
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            recent AS (
                PARTITION BY rank, name, point, metric
                ORDER BY step, micro_step
                ROWS BETWEEN 100 PRECEDING AND 1 PRECEDING
            )
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{:.3g} is the median before', exp(middle)) AS reason
FROM recent
CROSS JOIN limits
WHERE
    known >= least_known
    AND (
        (ln(value) - middle > greatest(rise * deviation, ln(times)) AND value > times_range * largest)
        OR (
            middle - ln(greatest(value, next_value)) > greatest(fall * deviation, ln(times))
            AND greatest(value, next_value) * times_range < smallest
            AND greatest(value, next_value) * times < previous_value
            AND next_value IS NOT NULL
        )
    )
