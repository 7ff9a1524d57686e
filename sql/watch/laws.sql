-- laws: gradients that break a law of data parallel training.
-- grain: one gradient of one rank, at the first step that breaks the law
-- The laws hold for parameters that are equal on all ranks in the first step, which are replicas. First: behind the
-- reduction their gradients are equal on all ranks. Second: a sum or mean of all ranks' gradients is no longer than the
-- sum of their lengths. The second needs gradient_unreduced. What more than half of the ranks have is right; without such
-- a half, as with two ranks, nobody can say, and all are named.
WITH
    limits AS (
        SELECT
            1e-6 AS tolerance,     -- of the largest gradient: what another order of summation may change
            1e-3 AS sum_tolerance
    ),
    replicas AS (
        SELECT name
        FROM watched
        WHERE
            point = 'parameter'
            AND metric = 'norm'
            AND step = (SELECT min(step) FROM watched WHERE point = 'parameter')
        GROUP BY name
        HAVING count(DISTINCT rank) > 1 AND min(value) = max(value)
    ),
    reduced AS (
        SELECT
            *,
            quantile_disc(value, 0.5) OVER together AS lower,
            -quantile_disc(-value, 0.5) OVER together AS upper,
            max(value) OVER together AS largest,
            row_number() OVER (PARTITION BY rank, step, name ORDER BY micro_step DESC) = 1 AS is_last
        FROM watched
        JOIN replicas USING (name)
        WHERE point = 'gradient' AND metric = 'norm' AND isfinite(value)
        WINDOW together AS (PARTITION BY step, micro_step, name)
    ),
    unequal AS (
        SELECT
            reduced.*,
            format(
                'other ranks have {:.6g}, though the parameter is the same on all',
                if(abs(value - lower) > tolerance * largest, lower, upper)
            ) AS reason
        FROM reduced
        CROSS JOIN limits
        WHERE greatest(value - lower, upper - value) > tolerance * largest
    ),
    lengths AS (
        SELECT
            step,
            name,
            sum(value ORDER BY rank) AS whole
        FROM (
            SELECT *
            FROM watched
            JOIN replicas USING (name)
            WHERE point = 'gradient_unreduced' AND metric = 'norm' AND isfinite(value)
            QUALIFY row_number() OVER (PARTITION BY rank, step, name ORDER BY micro_step DESC) = 1
        )
        GROUP BY step, name
        HAVING count(*) = (SELECT count(DISTINCT rank) FROM watched)  -- all ranks have published the step
    ),
    too_long AS (
        SELECT
            reduced.*,
            format('longer than the gradients of all ranks together, {:.6g}', whole) AS reason
        FROM reduced
        JOIN lengths USING (step, name)
        CROSS JOIN limits
        WHERE is_last AND value > (1 + sum_tolerance) * whole
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    reason
FROM (FROM unequal UNION ALL BY NAME FROM too_long)
QUALIFY row_number() OVER (PARTITION BY rank, name ORDER BY step, reason) = 1
