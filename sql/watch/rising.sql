-- rising: a gradient, an output or a logged number that begins to grow steadily, beside the one that it kept to until then.
-- grain: one series, at the first step in which it grows
-- From batch to batch, and while the network learns, the norms of a step go up and down together. So each is held
-- against the one whose ratio to it was the steadiest before, or against nothing if it was steadier by itself. A defect
-- makes one of them grow, and learning makes many: so it also grows by more than half of all others do. Twenty steps are
-- told by the median of their logarithms.
-- The standard error of a slope: M. G. Kendall and A. Stuart, The Advanced Theory of Statistics, vol. 2, §28.7.
WITH
    limits AS (
        SELECT
            0.25 AS least, -- in logarithms, in four hundred steps: 0.06 % a step
            4.0 AS errors, -- standard errors of the change of slope
            1e-10 AS least_error -- of a series without noise, whose standard error rounding makes zero, or less
    ),
    numbered AS (
        SELECT *, (dense_rank() OVER (PARTITION BY rank ORDER BY step) - 1) // 20 AS twenty
        FROM watched
        WHERE
            metric IN ('norm', 'value')
            AND point IN ('gradient', 'output', 'logged')
            AND NOT starts_with(name, 'learning_rate')
            AND isfinite(value)
            AND NOT skipped
    ),
    moving AS (
        SELECT
            rank,
            name,
            point,
            metric,
            twenty,
            min(step) AS step,
            arg_max(value, (step, micro_step)) AS value,
            median(ln(value)) AS middle
        FROM numbered
        WHERE value > 0
        GROUP BY ALL
        HAVING count(*) >= 10
    ),
    twenties AS (
        FROM moving
        UNION ALL BY NAME
        SELECT DISTINCT rank, point, twenty, NULL AS name, 0.0 AS middle
        FROM moving
    ),
    -- where something may begin: up to four hundred steps before, without the first two hundred, and as many behind
    windows AS (
        SELECT DISTINCT
            twenty AS onset,
            greatest(10, twenty - 20) AS earliest,
            twenty + 19 AS latest
        FROM twenties
        WHERE twenty >= 25
    ),
    rises AS (
        SELECT
            rank,
            name,
            point,
            metric,
            onset,
            earliest,
            latest,
            20 * regr_slope(middle, twenty) AS rise,
            min(step) AS step,
            arg_max(value, twenty) AS value
        FROM twenties
        JOIN windows ON twenty BETWEEN onset AND latest
        GROUP BY ALL
        HAVING count(*) = 20
    ),
    candidates AS (
        FROM rises
        QUALIFY rise - quantile_disc(rise, 0.5) OVER (PARTITION BY rank, point, onset) > (SELECT least FROM limits)
    ),
    -- the slope of the ratio to each other series, before and after
    sides AS (
        SELECT
            candidates.*,
            other.name AS beside,
            own.twenty >= onset AS is_after,
            stddev(own.middle - other.middle) AS spread,
            regr_slope(own.middle - other.middle, own.twenty) AS slope,
            regr_syy(own.middle - other.middle, own.twenty) / regr_sxx(own.middle - other.middle, own.twenty) AS squared,
            (squared - slope ** 2) / (count(*) - 2) AS squared_error
        FROM candidates
        JOIN twenties AS own USING (rank, name, point)
        JOIN twenties AS other USING (rank, point, twenty)
        WHERE own.twenty BETWEEN earliest AND latest AND other.name IS DISTINCT FROM own.name
        GROUP BY ALL
        HAVING count(*) >= 15
    ),
    closest AS (
        SELECT
            later.*,
            20 * later.slope AS growth,
            (later.slope - earlier.slope)
            / greatest(least_error, sqrt(greatest(0, later.squared_error + earlier.squared_error))) AS errors
        FROM sides AS earlier
        CROSS JOIN limits
        JOIN sides AS later USING (rank, name, point, onset)
        WHERE
            NOT earlier.is_after
            AND later.is_after
            AND earlier.beside IS NOT DISTINCT FROM later.beside
        QUALIFY row_number() OVER (PARTITION BY rank, name, point, onset ORDER BY earlier.spread, later.beside) = 1
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('grows by {:.2g} % a step since then{}', 100 * (exp(growth / 400) - 1), coalesce(' beside ' || beside, '')) AS reason
FROM closest
CROSS JOIN limits
WHERE growth > limits.least AND closest.errors > limits.errors
QUALIFY row_number() OVER (PARTITION BY rank, name, point ORDER BY closest.errors DESC, step) = 1
