-- turbulence: a norm, or a number of the script, that jumps far above its own past.
-- grain: one value of the series
-- The past is the exponential moving average of the magnitudes before it: h₀ = |x₀|, hₜ = decay · hₜ₋₁ +
-- (1 − decay) · |xₜ|. It begins again every 20 000 values, before decay⁻ⁿ gets too large.
WITH
    limits AS (
        SELECT
            0.99 AS decay,
            10.0 AS times_above,  -- of its past
            5 AS warm_up          -- values that are not judged
    ),
    numbered AS (
        SELECT
            *,
            abs(value) AS magnitude,
            row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) - 1 AS place,
            place // 20000 AS stretch,
            place % 20000 AS n
        FROM watched
        WHERE isfinite(value) AND metric IN ('norm', 'value') AND NOT starts_with(name, 'learning_rate')
    ),
    averaged AS (
        SELECT
            *,
            first_value(magnitude) OVER (PARTITION BY rank, name, point, metric, stretch ORDER BY n) AS first_magnitude,
            sum(if(n = 0, 0, magnitude * decay ** -n)) OVER (
                PARTITION BY rank, name, point, metric, stretch
                ORDER BY n
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS weighted,
            decay ** (n - 1) * (first_magnitude + (1 - decay) * weighted) AS past
        FROM numbered
        CROSS JOIN limits
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{:.3g} times its past', magnitude / past) AS reason
FROM averaged
WHERE n >= warm_up AND magnitude > times_above * past AND past > 0
