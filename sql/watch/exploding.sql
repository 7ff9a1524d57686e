-- exploding: a gradient that has grown far beyond its own first steps, in the third value that is larger than the one before.
-- grain: one series, at the first step beyond the limit
WITH
    limits AS (
        SELECT
            1e3 AS times,     -- larger
            10 AS first_steps -- that say what is usual
    ),
    gradients AS (
        SELECT
            *,
            row_number() OVER series AS n,
            value > lag(value) OVER series
            AND lag(value) OVER series > lag(value, 2) OVER series AS is_growing
        FROM watched
        WHERE metric = 'norm' AND point IN ('gradient', 'gradient_unreduced') AND value > 0 AND isfinite(value) AND NOT skipped
        WINDOW series AS (PARTITION BY rank, name, point ORDER BY step, micro_step)
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
WHERE n > first_steps AND value > times * usual AND is_growing
QUALIFY row_number() OVER (PARTITION BY rank, name, point ORDER BY step, micro_step) = 1
