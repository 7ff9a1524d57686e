-- rising: a gradient, an activation or a number of the script that begins to grow steadily: by as large a part in each
--   hundred values, four times, where it did not before. What grows since the beginning, or ever less, is usual; so is
--   what has wandered as far since its two hundredth value.
-- grain: one series, at the first step of the first hundred values in which it grows
-- A hundred values are told by the median of their logarithms, whose standard error is 1.25 deviations / √100 for a normal
--   distribution (M. G. Kendall and A. Stuart, The Advanced Theory of Statistics, vol. 1, §10.9).
WITH
    limits AS (
        SELECT
            0.2 AS least,       -- in logarithms, from one hundred to the fourth after it: 0.05 % a step
            5.0 AS errors,      -- standard errors of the difference of two medians
            1.5 AS times_before -- the range of the medians before
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
            AND point NOT IN ('parameter', 'parameter_updated', 'sent', 'received')
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
            lag(step, 3) OVER series AS began,
            middle - lag(middle, 4) OVER series AS rise,
            least(
                middle - lag(middle) OVER series,
                lag(middle) OVER series - lag(middle, 2) OVER series,
                lag(middle, 2) OVER series - lag(middle, 3) OVER series,
                lag(middle, 3) OVER series - lag(middle, 4) OVER series
            ) AS slowest,
            max(middle) FILTER (WHERE hundred >= 2) OVER past - min(middle) FILTER (WHERE hundred >= 2) OVER past AS range_before,
            count(*) FILTER (WHERE hundred >= 2) OVER past AS known,
            max(deviation) OVER (series ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS widest
        FROM hundreds
        WINDOW
            series AS (PARTITION BY rank, name, point, metric ORDER BY hundred),
            past AS (
                PARTITION BY rank, name, point, metric ORDER BY hundred ROWS BETWEEN UNBOUNDED PRECEDING AND 4 PRECEDING
            )
    )
SELECT
    rank,
    began AS step,
    name,
    point,
    metric,
    value,
    format('grows by {:.2g} % a step since then', 100 * (exp(rise / 400) - 1)) AS reason
FROM rises
CROSS JOIN limits
WHERE
    known >= 3
    AND rise > greatest(least, errors * 0.125 * sqrt(2) * widest, times_before * range_before)
    AND slowest > rise / 10
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY hundred) = 1
