-- drifting: a parameter that begins at once to grow or to shrink, by a part of itself in every step.
-- grain: one parameter, at the first step in which it grows otherwise
-- A training changes the pace of a norm slowly. So a pace that changes at once, between one twenty steps and the next,
-- and more than in any of the two hundred steps before, comes from elsewhere. A learning rate that changes moves all
-- paces; what is near such a change is left out. So is a norm on its way through zero, which shrinks and then grows.
WITH
    limits AS (
        SELECT
            0.0005 AS least, -- of the norm, by which a step grows more or less than before
            2.0 AS times,    -- the largest change of pace before
            1.5 AS rate      -- times which a learning rate may change
    ),
    changed_rates AS (
        SELECT rank, step
        FROM watched
        WHERE starts_with(name, 'learning_rate') AND point = 'logged'
        WINDOW near AS (PARTITION BY rank, name ORDER BY step ROWS BETWEEN 20 PRECEDING AND 20 FOLLOWING)
        QUALIFY max(value) OVER near > (SELECT rate FROM limits) * min(value) OVER near
    ),
    growths AS (
        SELECT *, ln(value) - lag(ln(value)) OVER (PARTITION BY rank, name ORDER BY step, micro_step) AS growth
        FROM watched
        WHERE point = 'parameter' AND metric = 'norm' AND value > 0 AND isfinite(value)
    ),
    paces AS (
        SELECT
            *,
            avg(growth) OVER (series ROWS BETWEEN 20 PRECEDING AND 1 PRECEDING) AS pace_before,
            avg(growth) OVER (series ROWS BETWEEN CURRENT ROW AND 19 FOLLOWING) - pace_before AS change,
            median(growth) OVER following - median(growth) OVER (series ROWS BETWEEN 200 PRECEDING AND 1 PRECEDING) AS lasting,
            count(*) OVER following AS followed
        FROM growths
        WINDOW
            series AS (PARTITION BY rank, name ORDER BY step, micro_step),
            following AS (PARTITION BY rank, name ORDER BY step, micro_step ROWS BETWEEN CURRENT ROW AND 99 FOLLOWING)
    ),
    compared AS (
        SELECT
            *,
            sign(change) AS side,
            max(abs(change)) OVER (series ROWS BETWEEN 219 PRECEDING AND 20 PRECEDING) AS usual,
            count(change) OVER (series ROWS BETWEEN 219 PRECEDING AND 20 PRECEDING) AS known,
            max(abs(change)) OVER (series ROWS BETWEEN 20 PRECEDING AND 20 FOLLOWING) AS largest_near,
            -- a pace that changes slowly has changed as much just before, or goes on changing
            greatest(0, side * lag(change, 20) OVER series, side * lead(change, 20) OVER series) AS slow
        FROM paces
        WINDOW series AS (PARTITION BY rank, name ORDER BY step, micro_step)
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('{:+.2g} % a step since then, on top of its growth before', 100 * lasting) AS reason
FROM compared
ANTI JOIN changed_rates USING (rank, step)
CROSS JOIN limits
WHERE
    known = 200
    AND followed = 100
    AND usual > 0
    AND abs(change) = largest_near
    AND abs(change) > least
    AND abs(change) - slow > times * usual
    AND (change < 0 OR pace_before > -change / 4)
    AND side * lasting > greatest(least, abs(change) / 2)
QUALIFY row_number() OVER (PARTITION BY rank, name ORDER BY step, micro_step) = 1
