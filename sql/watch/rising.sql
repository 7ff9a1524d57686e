-- rising: a gradient, an activation or a number of the script that begins to grow steadily: by as large a part in each
--   hundred values, three times, where it did not before. What grows since the beginning, or ever less, is usual.
-- grain: one series, at the first step of the first hundred values in which it grows
-- A hundred values are told by the median of their logarithms, whose standard error is 1.25 deviations / √100 for a normal
--   distribution (M. G. Kendall and A. Stuart, The Advanced Theory of Statistics, vol. 1, §10.9).
WITH
    limits AS (
        SELECT
            0.2 AS least, -- in logarithms, from one hundred to the third after it: 0.07 % a step
            6.0 AS errors -- standard errors of the difference of two medians
    ),
    numbered AS (
        SELECT
            *,
            (row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) - 1) // 100 AS hundred
        FROM watched
        WHERE
            isfinite(value)
            AND value > 0
            AND metric IN ('norm', 'value')
            AND point NOT IN ('parameter', 'sent', 'received')
            AND NOT starts_with(name, 'learning_rate')
    ),
    hundreds AS (
        SELECT
            rank,
            name,
            point,
            metric,
            hundred,
            min(step) AS step,
            arg_max(value, (step, micro_step)) AS value,
            median(ln(value)) AS middle,
            1.4826 * mad(ln(value)) AS deviation
        FROM numbered
        GROUP BY ALL
        HAVING count(*) = 100
    ),
    rises AS (
        SELECT
            *,
            lag(step, 2) OVER series AS began,
            middle - lag(middle, 3) OVER series AS rise,
            least(
                middle - lag(middle) OVER series,
                lag(middle) OVER series - lag(middle, 2) OVER series,
                lag(middle, 2) OVER series - lag(middle, 3) OVER series
            ) AS slowest,
            lag(middle, 3) OVER series - lag(middle, 6) OVER series AS rise_before,
            max(deviation) OVER (series ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS widest
        FROM hundreds
        WINDOW series AS (PARTITION BY rank, name, point, metric ORDER BY hundred)
    )
SELECT
    rank,
    began AS step,
    name,
    point,
    metric,
    value,
    format('grows by {:.2g} % a step since then', 100 * (exp(rise / 300) - 1)) AS reason
FROM rises
CROSS JOIN limits
WHERE
    rise > greatest(least, errors * 0.125 * sqrt(2) * widest)
    AND slowest > rise / 10
    AND rise_before < rise / 2
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY hundred) = 1
