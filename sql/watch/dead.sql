-- dead: a gradient that is zero in every step since some step, or an activation that is.
-- grain: one series, at the first of its steps that are zero
-- A gradient that was never anything else may be zero by the loss, as that of a bias that a difference cancels. It is
-- dead if all of its module are.
WITH
    limits AS (
        SELECT 8 AS least_steps, -- in a row, up to the last, and
            2 AS times_rest   -- longer than any rest before: an expert of a mixture is idle for a while
    ),
    norms AS (
        SELECT
            *,
            step - max(step) FILTER (WHERE value <> 0) OVER (
                PARTITION BY rank, name, point
                ORDER BY step, micro_step
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) - 1 AS idle
        FROM watched
        WHERE metric = 'norm' AND point IN ('gradient', 'gradient_unreduced', 'output', 'output_gradient')
    )
SELECT
    rank,
    min(step) FILTER (WHERE step > last_alive) AS step,
    name,
    point,
    metric,
    0.0 AS value,
    format('zero in {} steps, up to the last', count(DISTINCT step) FILTER (WHERE step > last_alive)) AS reason
FROM (
    SELECT
        *,
        coalesce(max(step) FILTER (WHERE value <> 0) OVER (PARTITION BY rank, name, point), -1) AS last_alive,
        coalesce(max(idle) FILTER (WHERE value <> 0) OVER (PARTITION BY rank, name, point), 0) AS longest_rest,
        point IN ('gradient', 'gradient_unreduced') AS is_of_parameter,
        bool_or(value <> 0) OVER (PARTITION BY rank, regexp_replace(name, '[^.]*$', ''), point) AS is_module_alive
    FROM norms
)
CROSS JOIN limits
WHERE NOT (last_alive = -1 AND is_of_parameter AND is_module_alive)
GROUP BY rank, name, point, metric, least_steps, times_rest, longest_rest, last_alive
HAVING
    count(DISTINCT step) FILTER (WHERE step > last_alive) >= least_steps
    AND max(step) - last_alive > times_rest * longest_rest
