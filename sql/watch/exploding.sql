-- exploding: a gradient that grows far beyond its own first steps and stays there. One large value is a jump.
-- grain: one series, at the first of three values in a row beyond the limit
-- A warm-up may grow as far, but slowly: so these values are also larger than all until twenty values ago.
WITH
    limits AS (
        SELECT
            1e3 AS times,      -- larger than all of
            10 AS first_steps, -- and
            5.0 AS times_past  -- larger than all until twenty values ago
    ),
    gradients AS (
        SELECT
            *,
            row_number() OVER series AS n,
            least(value, lead(value) OVER series, lead(value, 2) OVER series) AS least_of_three,
            lead(value, 2) OVER series IS NOT NULL AS has_three,
            max(value) OVER (series ROWS BETWEEN UNBOUNDED PRECEDING AND 20 PRECEDING) AS past
        FROM watched
        WHERE
            metric = 'norm'
            AND point IN ('gradient', 'gradient_unreduced')
            AND value > 0
            AND isfinite(value)
            AND NOT skipped
        WINDOW series AS (PARTITION BY rank, name, point ORDER BY step, micro_step)
    ),
    usual AS (
        SELECT
            rank,
            name,
            point,
            max(value) AS usual
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
    format('{:.3g} at most at first', usual) AS reason
FROM gradients
JOIN usual USING (rank, name, point)
CROSS JOIN limits
WHERE
    n > first_steps
    AND has_three
    AND least_of_three > greatest(times * usual, times_past * coalesce(past, 0))
QUALIFY row_number() OVER (PARTITION BY rank, name, point ORDER BY step, micro_step) = 1
