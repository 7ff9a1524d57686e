-- between: a tensor that is no longer the same in two places of a step between which nothing should change it.
-- grain: one gradient or parameter of one rank, at the first step in which it is another
-- The gradient that the optimizer uses is the one that backward left, times a factor that all gradients share, such as
-- that of clipping. A parameter is what the update before left. Where an optimizer updates several times in a step, its
-- last gradient counts, and its last update. Only what was so in the first twenty steps counts:
-- gradients that are reduced over ranks, weights that are clamped and the like never were. Needs both points:
-- gradient_unreduced and gradient, parameter_updated and parameter.
WITH
    limits AS (
        SELECT
            20 AS first_steps,
            1e-5 AS tolerance -- beyond what float32 may round in a factor
    ),
    norms AS (
        SELECT
            *,
            row_number() OVER (together ORDER BY micro_step) = 1 AS is_first,
            row_number() OVER (together ORDER BY micro_step DESC) = 1 AS is_last
        FROM watched
        WHERE metric = 'norm' AND isfinite(value) AND value > 0 AND NOT skipped
        WINDOW together AS (PARTITION BY rank, name, point, step)
    ),
    places AS (
        SELECT
            later.*,
            earlier.value AS earlier_value,
            'backward left' AS said
        FROM norms AS later
        JOIN norms AS earlier USING (rank, name, step)
        WHERE later.point = 'gradient' AND later.is_last AND earlier.point = 'gradient_unreduced' AND earlier.is_last
        UNION ALL BY NAME
        SELECT
            later.*,
            earlier.value AS earlier_value,
            'the update before left' AS said
        FROM norms AS later
        JOIN norms AS earlier ON earlier.rank = later.rank AND earlier.name = later.name AND earlier.step = later.step - 1
        WHERE later.point = 'parameter' AND later.is_first AND earlier.point = 'parameter_updated' AND earlier.is_last
    ),
    factors AS (
        SELECT
            *,
            value / earlier_value / if(point = 'gradient', quantile_disc(value / earlier_value, 0.5) OVER together, 1) - 1 AS off,
            row_number() OVER (PARTITION BY rank, name, point ORDER BY step) AS n
        FROM places
        WINDOW together AS (PARTITION BY rank, step, point)
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{} {:.6g}', said, earlier_value) AS reason
FROM factors
CROSS JOIN limits
WHERE abs(off) > tolerance
QUALIFY
    row_number() OVER (PARTITION BY rank, name, point ORDER BY step) = 1
    AND n > first_steps
