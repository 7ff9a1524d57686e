-- turbulence: a norm, or a number of the script, that stays far above its own past for more than one value.
-- grain: one value of the series, the first of two that are too large
-- Zeros do not count as past: a gradient may begin at zero, or be zero in every other step. A schedule that starts
-- again comes back to values that the series had before, which is why the largest of them counts too.
WITH
    limits AS (
        SELECT
            20 AS least_known,      -- values before one is judged
            10.0 AS times_average,  -- of the last values
            2.0 AS times_largest    -- of all values before
    ),
    judged AS (
        SELECT
            *,
            abs(value) AS magnitude,
            lead(abs(value)) OVER series AS next_magnitude,
            count(*) OVER past AS known,
            max(abs(value)) OVER past AS largest,
            avg(abs(value)) OVER recent AS average
        FROM watched
        WHERE
            isfinite(value)
            AND NOT skipped
            AND value <> 0
            AND metric IN ('norm', 'value')
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
    format('{:.3g} times its past', magnitude / average) AS reason
FROM judged
CROSS JOIN limits
WHERE
    known >= least_known
    AND least(magnitude, next_magnitude) > times_average * average
    AND least(magnitude, next_magnitude) > times_largest * largest
    AND next_magnitude IS NOT NULL
