-- vanishing: a gradient that has shrunk by many decades against its own first steps.
-- grain: one series, at the first step beyond the limit
WITH
    limits AS (
        SELECT
            1e6 AS times,     -- smaller
            10 AS first_steps -- that say what is usual
    ),
    gradients AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY rank, name, point ORDER BY step, micro_step) AS n
        FROM watched
        WHERE metric = 'norm' AND point IN ('gradient', 'gradient_unreduced') AND value > 0 AND isfinite(value) AND NOT skipped
    ),
    usual AS (
        SELECT
            rank,
            name,
            point,
            median(value) AS usual
        FROM gradients
        CROSS JOIN limits
        WHERE n <= first_steps
        GROUP BY ALL
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{:.3g} at first', usual) AS reason
FROM gradients
JOIN usual USING (rank, name, point)
CROSS JOIN limits
WHERE n > first_steps AND value * times < usual
QUALIFY row_number() OVER (PARTITION BY rank, name, point ORDER BY step, micro_step) = 1
