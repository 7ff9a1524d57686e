-- jump: a norm, or a number of the script, that leaves the range of its last values at once, upwards or downwards.
-- grain: one value of the series
WITH
    limits AS (
        SELECT
            20 AS last_values,
            20.0 AS deviations,  -- standard deviations from their mean, and
            8.0 AS times         -- larger or smaller than it
    ),
    recent AS (
        SELECT
            *,
            count(*) OVER past AS known,
            avg(value) OVER past AS mean,
            stddev_pop(value) OVER past AS deviation
        FROM watched
        WHERE
            isfinite(value)
            AND value > 0
            AND metric IN ('norm', 'value')
            AND point NOT IN ('sent', 'received')
            AND NOT starts_with(name, 'learning_rate')
        WINDOW past AS (
            PARTITION BY rank, name, point, metric
            ORDER BY step, micro_step
            ROWS BETWEEN 20 PRECEDING AND 1 PRECEDING
        )
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{:.3g} on average before', mean) AS reason
FROM recent
CROSS JOIN limits
WHERE
    known = last_values
    AND abs(value - mean) > deviations * deviation
    AND (value > times * mean OR value * times < mean)
